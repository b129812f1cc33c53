package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var outboxTests = []test{
	{"I3_handoffs_and_messages_keep_a_conversations_order", func(k *kit) {
		want := make(map[string][]uuid.UUID)
		for batch := range 4 {
			var items []tasks.Submission
			for i := range 30 {
				items = append(items, submission(func(s *tasks.Submission) { s.Conversation = fmt.Sprint("c", (batch+i)%5) }))
			}
			// The order of a conversation is that of its items, whatever order their ids have.
			slices.SortFunc(items, func(a, b tasks.Submission) int { return slices.Compare(a.Fingerprint[:], b.Fingerprint[:]) })
			k.submitAll(items...)
			for _, s := range items {
				want[s.Conversation] = append(want[s.Conversation], s.TaskID)
			}
		}
		got := make(map[string][]uuid.UUID)
		lastID := int64(0)
		for _, h := range k.Handoffs() {
			if h.ID <= lastID || h.Shard != tasks.Shard(h.Workspace, h.Conversation) {
				k.Fatalf("handoff %+v after id %d", h, lastID)
			}
			lastID = h.ID
			got[h.Conversation] = append(got[h.Conversation], h.TaskID)
		}
		for name, ids := range want {
			if !slices.Equal(got[name], ids) {
				k.Errorf("handoffs of %s are not in the order of its submissions", name)
			}
			var messages []uuid.UUID
			for _, id := range ids {
				t, err := k.Store.Task(k.ctx, workspace, id)
				if err != nil {
					k.Fatalf("read task: %v", err)
				}
				messages = append(messages, t.MessageID)
			}
			var read []uuid.UUID
			for _, m := range k.conversation(workspace, name) {
				read = append(read, m.ID)
			}
			if !slices.Equal(read, messages) {
				k.Errorf("messages of %s are not in the order of its submissions", name)
			}
		}
	}},
	{"a_retry_may_bring_its_own_handoff", func(k *kit) {
		s, w := k.started()
		again := retry(w, 30*time.Minute)
		again.Handoff = true
		k.settle(again, tasks.VerdictAccepted, tasks.StatusQueued)
		k.settle(again, tasks.VerdictAccepted, tasks.StatusQueued)
		d := k.Delayed()
		if len(d) != 1 {
			k.Fatalf("delayed handoffs %v", d)
		}
		k.within("delay", d[s.TaskID], 30*time.Minute)
		k.Advance(31 * time.Minute)
		if d := k.Delayed()[s.TaskID]; d > 0 {
			k.Fatalf("the handoff is due in %s, after the retry", d)
		}
		// A second one replaces the first, should that still be there.
		again = retry(k.take(s), 40*time.Minute)
		again.Handoff = true
		k.settle(again, tasks.VerdictAccepted, tasks.StatusQueued)
		k.within("delay", k.Delayed()[s.TaskID], 40*time.Minute)
	}},
	{"I4_a_refused_retry_brings_no_handoff", func(k *kit) {
		_, w := k.started()
		k.Advance(lease + time.Minute)
		late := retry(w, 30*time.Minute)
		late.Handoff = true
		k.settle(late, tasks.VerdictExpired, tasks.StatusRunning)
		if d := k.Delayed(); len(d) != 0 {
			k.Fatalf("delayed handoffs %v", d)
		}
	}},
}
