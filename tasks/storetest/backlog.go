package storetest

import (
	"context"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// backlog is what a store has beside tasks.Store so that the submission API can refuse what would have to wait too long.
type backlog interface {
	Unfinished(ctx context.Context, most int) (int, error)
	UnfinishedOf(ctx context.Context, workspace string, most int) (int, error)
}

var backlogTests = []test{
	{"unfinished_tasks_are_counted_up_to_a_bound", func(k *kit) {
		store, ok := k.Store.(backlog)
		if !ok {
			k.Fatalf("%T does not count its backlog", k.Store)
		}
		want := func(all, own, others int) {
			k.Helper()
			for _, count := range []struct {
				of         string
				most, want int
			}{{workspace, 10, own}, {"other", 10, others}, {"none", 10, 0}, {workspace, 1, min(own, 1)}} {
				if n, err := store.UnfinishedOf(k.ctx, count.of, count.most); err != nil || n != count.want {
					k.Errorf("%d tasks of %s are unfinished of %d, %v, want %d", n, count.of, count.most, err, count.want)
				}
			}
			for _, most := range []int{1, 10} {
				if n, err := store.Unfinished(k.ctx, most); err != nil || n != min(all, most) {
					k.Errorf("%d tasks are unfinished of %d, %v, want %d", n, most, err, min(all, most))
				}
			}
		}
		want(0, 0, 0)
		s, w := k.started()
		k.submit()
		k.submit(func(s *tasks.Submission) { s.Workspace = "other" })
		want(3, 2, 1)
		k.settle(tasks.Settlement{Assignment: w.Assignment, Outcome: tasks.OutcomeComplete,
			Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Text: "hello"}}, tasks.VerdictAccepted, tasks.StatusCompleted)
		want(2, 1, 1)
		if _, _, err := k.Store.Cancel(k.ctx, workspace, s.TaskID); err != nil {
			k.Errorf("cancel: %v", err)
		}
		want(2, 1, 1)
	}},
}
