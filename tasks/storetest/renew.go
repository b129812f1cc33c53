package storetest

import (
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

var renewTests = []test{
	{"renew_prolongs_a_lease", func(k *kit) {
		s, w := k.started()
		for range 3 {
			k.Advance(lease - 10*time.Minute)
			if !k.renew(w.Assignment) {
				k.Fatalf("a live lease was not renewed")
			}
		}
		c := k.wantClaim(s, tasks.DecisionLeased, tasks.StatusRunning)
		k.within("wait", c.Wait, lease)
		k.Advance(lease - 10*time.Minute)
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
	}},
	{"I4_a_lost_assignment_is_not_renewed", func(k *kit) {
		start := func() tasks.Work { _, w := k.started(); return w }
		expired, taken, settled, retried, cancelled := start(), start(), start(), start(), start()
		k.settle(complete(settled, "x"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.settle(retry(retried, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		if _, _, err := k.Store.Cancel(k.ctx, workspace, cancelled.TaskID); err != nil {
			k.Fatalf("cancel: %v", err)
		}
		k.Advance(lease + time.Minute)
		successor := k.claimAll(claimer(), tasks.Ref{TaskID: taken.TaskID, Workspace: workspace})[0].Work
		live := start()
		unknown, ahead := live.Assignment, live.Assignment
		unknown.TaskID = newID()
		ahead.Version++
		items := []tasks.Assignment{
			expired.Assignment, taken.Assignment, successor.Assignment, settled.Assignment, retried.Assignment,
			cancelled.Assignment, unknown, ahead, live.Assignment, live.Assignment,
		}
		const kept, lost = tasks.RenewalKept, tasks.RenewalLost
		want := []tasks.Renewal{lost, lost, kept, lost, lost, lost, lost, lost, kept, kept}
		got, err := k.Store.Renew(k.ctx, lease, items)
		if err != nil || !slices.Equal(got, want) {
			k.Fatalf("renewed %v, want %v; %v", got, want, err)
		}
		if got, err := k.Store.Renew(k.ctx, lease, nil); err != nil || len(got) != 0 {
			k.Fatalf("renewal of nothing: %v, %v", got, err)
		}
	}},
}
