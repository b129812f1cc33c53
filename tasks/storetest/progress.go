package storetest

import (
	"slices"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) progress(ids ...uuid.UUID) map[uuid.UUID]tasks.Progress {
	k.Helper()
	store, ok := k.Store.(tasks.Watched)
	if !ok {
		k.Fatalf("%T has no Progress", k.Store)
	}
	list, err := store.Progress(k.ctx, ids)
	if err != nil {
		k.Fatalf("progress: %v", err)
	}
	out := make(map[uuid.UUID]tasks.Progress, len(list))
	for _, p := range list {
		out[p.TaskID] = p
	}
	if len(out) != len(list) {
		k.Fatalf("some are told twice: %+v", list)
	}
	return out
}

var progressTests = []test{
	{"progress_is_where_each_task_is", func(k *kit) {
		queued := k.submit()
		running, _ := k.started()
		again, w := k.started()
		k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		k.take(again)
		released, w := k.started()
		k.settle(release(w), tasks.VerdictAccepted, tasks.StatusQueued)
		done, w := k.started(func(s *tasks.Submission) { s.Workspace = "w2" })
		k.settle(complete(w, "x"), tasks.VerdictAccepted, tasks.StatusCompleted)
		want := map[uuid.UUID]tasks.Progress{
			queued.TaskID:   {Workspace: workspace, TaskID: queued.TaskID, Status: tasks.StatusQueued},
			running.TaskID:  {Workspace: workspace, TaskID: running.TaskID, Status: tasks.StatusRunning, Version: 1, Attempts: 1},
			again.TaskID:    {Workspace: workspace, TaskID: again.TaskID, Status: tasks.StatusRunning, Version: 2, Attempts: 2},
			released.TaskID: {Workspace: workspace, TaskID: released.TaskID, Status: tasks.StatusQueued, Version: 1},
			done.TaskID:     {Workspace: "w2", TaskID: done.TaskID, Status: tasks.StatusCompleted, Version: 1, Attempts: 1},
		}
		got := k.progress(done.TaskID, queued.TaskID, newID(), running.TaskID, again.TaskID, released.TaskID, queued.TaskID)
		if len(got) != len(want) {
			k.Fatalf("progress %+v, want %+v", got, want)
		}
		for id, p := range want {
			if got[id] != p {
				k.Fatalf("progress %+v, want %+v", got[id], p)
			}
		}
		if len(k.progress()) != 0 || len(k.progress(newID())) != 0 {
			k.Fatalf("progress of nothing")
		}
	}},
	{"progress_of_thousands_at_once", func(k *kit) {
		items := make([]tasks.Submission, 3000)
		ids := make([]uuid.UUID, len(items))
		for i := range items {
			items[i] = submission()
			ids[i] = items[i].TaskID
		}
		k.submitAll(items...)
		slices.Reverse(ids)
		if got := k.progress(ids...); len(got) != len(ids) {
			k.Fatalf("%d are told of %d", len(got), len(ids))
		}
	}},
}
