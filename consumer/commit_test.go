package consumer

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/offsets"
)

// What is stored with the replies is committed to the group though nothing is left to be received, also where the group
// has no commit at all. Lag would stay above 0 otherwise, and lost tasks would not be looked for.
func TestPositionAheadOfTheGroupsCommitIsCommitted(t *testing.T) {
	for _, c := range []struct {
		first, committed int64
		event            string
		want             bool
	}{
		{2, -1, "", true}, {2, 1, "", true}, {2, 2, "", false}, {0, -1, beginNoCommit, false},
	} {
		a := &assignment{tracker: offsets.NewTracker(), said: time.Now(), committed: offsets.Position{Offset: -1}}
		a.begin(c.first, c.committed, nil, offsets.Owner{}, c.event)
		commit, news := a.commit(time.Hour)
		if news != c.want || news && commit.Position.Offset != c.first {
			t.Errorf("begins at %d, committed %d: %+v, %t", c.first, c.committed, commit, news)
		}
	}
}
