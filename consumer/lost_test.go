package consumer_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/tasks"
)

// Partitions that are lost may have a new owner, who may have committed: whatever was settled since the last commit is
// read again, and its claim says so.
func TestI2_NothingIsCommittedOfWhatIsLost(t *testing.T) {
	w := newWorld(t, 1)
	commits := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1})
	w.start("w1", func(c *consumer.Config) { c.CommitInterval = time.Hour })
	w.finished(w.send(0, "c", "m"), tasks.StatusCompleted)
	claims := w.counted("Claim", 0)
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.IllegalGeneration, Count: 1})
	eventually(t, "the record is read again", func() bool { return w.counted("Claim", claims) > 0 })
	if n := commits.Hits(); n > 0 {
		t.Errorf("%d commits, and nothing was revoked", n)
	}
	if n := w.model.called("m"); n != 1 {
		t.Errorf("%d calls", n)
	}
}
