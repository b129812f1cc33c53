package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) tasks(f tasks.Filter) []uuid.UUID {
	k.Helper()
	read, err := k.Store.Tasks(k.ctx, f)
	if err != nil {
		k.Fatalf("read tasks: %v", err)
	}
	var ids []uuid.UUID
	for _, t := range read {
		ids = append(ids, t.ID)
	}
	return ids
}

var readTests = []test{
	{"tasks_newest_first_by_pages_and_filters", func(k *kit) {
		var all, mine, odd, running []uuid.UUID
		var items []tasks.Submission
		for i := range 120 {
			s := submission(func(s *tasks.Submission) {
				if i%4 == 0 {
					s.Workspace = "w2"
				}
				if i%2 == 1 {
					s.Conversation = "odd"
				}
			})
			items = append(items, s)
			all = append(all, s.TaskID)
			if i%4 != 0 {
				mine = append(mine, s.TaskID)
			}
			if i%2 == 1 {
				odd = append(odd, s.TaskID)
			}
		}
		k.submitAll(items...)
		for i := 1; i < 10; i += 2 {
			k.take(items[i])
			running = append(running, items[i].TaskID)
		}
		for _, ids := range [][]uuid.UUID{all, mine, odd, running} {
			slices.SortFunc(ids, func(a, b uuid.UUID) int { return -strings.Compare(a.String(), b.String()) })
		}
		for name, c := range map[string]struct {
			f    tasks.Filter
			want []uuid.UUID
		}{
			"all":            {tasks.Filter{Limit: 1000}, all},
			"beyond all":     {tasks.Filter{Limit: 1 << 40}, all},
			"default limit":  {tasks.Filter{}, all[:100]},
			"workspace":      {tasks.Filter{Workspace: workspace, Limit: 1000}, mine},
			"conversation":   {tasks.Filter{Workspace: workspace, Conversation: "odd", Limit: 1000}, odd},
			"status":         {tasks.Filter{Workspace: workspace, Status: tasks.StatusRunning, Limit: 1000}, running},
			"limit":          {tasks.Filter{Workspace: workspace, Limit: 7}, mine[:7]},
			"second page":    {tasks.Filter{Workspace: workspace, Limit: 7, Before: mine[6]}, mine[7:14]},
			"last page":      {tasks.Filter{Workspace: workspace, Before: mine[len(mine)-3]}, mine[len(mine)-2:]},
			"past the end":   {tasks.Filter{Workspace: workspace, Before: mine[len(mine)-1]}, nil},
			"no such status": {tasks.Filter{Workspace: workspace, Status: tasks.StatusCancelled}, nil},
			"no workspace":   {tasks.Filter{Workspace: "none"}, nil},
			"all filters": {tasks.Filter{Workspace: workspace, Status: tasks.StatusRunning, Conversation: "odd", Before: running[1], Limit: 2},
				running[2:4]},
		} {
			if got := k.tasks(c.f); !slices.Equal(got, c.want) {
				k.Errorf("%s: %d tasks, want %d: %v", name, len(got), len(c.want), got)
			}
		}
	}},
	{"a_page_of_tasks_has_what_the_task_has", func(k *kit) {
		s, w := k.started()
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		page, err := k.Store.Tasks(k.ctx, tasks.Filter{Workspace: workspace})
		if err != nil || len(page) != 1 {
			k.Fatalf("%d tasks, %v", len(page), err)
		}
		one, listed := k.read(s), page[0]
		if listed.Reply == nil || *listed.Reply != *one.Reply || listed.Cost.PicoUSD == nil || *listed.Cost.PicoUSD != *one.Cost.PicoUSD ||
			listed.Status != one.Status || listed.Budget != one.Budget || listed.Model != one.Model {
			k.Fatalf("listed as %+v, is %+v", listed, one)
		}
	}},
	{"finished_names_the_terminal_ones", func(k *kit) {
		queued := k.submit()
		running, _ := k.started()
		completed, w := k.started()
		k.settle(complete(w, "x"), tasks.VerdictAccepted, tasks.StatusCompleted)
		failed, w := k.started()
		k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
		cancelled := k.submit()
		k.cancel(cancelled, true, tasks.StatusCancelled)
		got, err := k.Store.Finished(k.ctx, []uuid.UUID{queued.TaskID, completed.TaskID, running.TaskID, newID(), cancelled.TaskID, failed.TaskID})
		want := []uuid.UUID{completed.TaskID, cancelled.TaskID, failed.TaskID}
		for _, ids := range [][]uuid.UUID{got, want} {
			slices.SortFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
		}
		if err != nil || !slices.Equal(got, want) {
			k.Fatalf("finished %v, want %v; %v", got, want, err)
		}
		if got, err := k.Store.Finished(k.ctx, nil); err != nil || len(got) != 0 {
			k.Fatalf("finished of nothing: %v, %v", got, err)
		}
	}},
	{"conversation_by_pages_with_the_current_reply_last", func(k *kit) {
		var items []tasks.Submission
		for i := range 25 {
			items = append(items, k.submit(func(s *tasks.Submission) { s.Request.Content = fmt.Sprint("message ", i) }))
			k.submit(func(s *tasks.Submission) { s.Conversation = "another" })
		}
		// Replies are saved in another order than the messages were said.
		for i := range slices.Backward(items) {
			k.settle(complete(k.take(items[i]), fmt.Sprint("reply ", i)), tasks.VerdictAccepted, tasks.StatusCompleted)
		}
		for _, text := range []string{"second", "third"} {
			anew := k.submit(func(s *tasks.Submission) {
				s.Kind, s.Regenerates, s.MessageID = tasks.KindRegenerate, items[3].TaskID, items[3].MessageID
			})
			k.settle(complete(k.take(anew), text), tasks.VerdictAccepted, tasks.StatusCompleted)
		}
		var read []tasks.Message
		after := int64(0)
		for range 10 {
			page, err := k.Store.Conversation(k.ctx, workspace, "c", after, 10)
			if err != nil || len(page) > 10 {
				k.Fatalf("%d messages, %v", len(page), err)
			}
			for _, m := range page {
				if m.Seq <= after {
					k.Fatalf("message %d comes after %d", m.Seq, after)
				}
				after = m.Seq
			}
			read = append(read, page...)
			if len(page) < 10 {
				break
			}
		}
		if len(read) != len(items) {
			k.Fatalf("%d messages, want %d", len(read), len(items))
		}
		for i, m := range read {
			want := []string{fmt.Sprint("reply ", i)}
			if i == 3 {
				want = append(want, "second", "third")
			}
			var got []string
			for _, r := range m.Replies {
				got = append(got, r.Text)
			}
			if m.ID != items[i].MessageID || m.Content != fmt.Sprint("message ", i) || !slices.Equal(got, want) {
				k.Errorf("message %d: %q with the replies %q, want %q", i, m.Content, got, want)
			}
		}
	}},
	{"an_unknown_conversation_is_empty", func(k *kit) {
		k.submit()
		if m := k.conversation(workspace, "none"); len(m) != 0 {
			k.Fatalf("%+v", m)
		}
		_, err := k.Store.Task(k.ctx, workspace, newID())
		k.wantError(err, tasks.ErrNotFound)
	}},
	{"a_done_context_changes_nothing", func(k *kit) {
		s := k.submit()
		ctx, stop := context.WithCancel(k.ctx)
		stop()
		if _, err := k.Store.Claim(ctx, claimer(), refs([]tasks.Submission{s})); !errors.Is(err, context.Canceled) {
			k.Fatalf("claim: %v", err)
		}
		if _, err := k.Store.Submit(ctx, []tasks.Submission{submission()}); !errors.Is(err, context.Canceled) {
			k.Fatalf("submit: %v", err)
		}
		if t := k.read(s); t.Attempts != 0 || t.Status != tasks.StatusQueued {
			k.Fatalf("task %+v", t)
		}
		k.wantCount(1)
	}},
}
