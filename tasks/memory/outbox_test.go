package memory

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func submitted(t *testing.T, s *Store, conversations ...string) []uuid.UUID {
	t.Helper()
	var ids []uuid.UUID
	for _, name := range conversations {
		id := uuid.Must(uuid.NewV7())
		out, err := s.Submit(t.Context(), []tasks.Submission{{
			Workspace: "w", Operation: tasks.OperationMessage, Key: id.String(), TaskID: id, MessageID: id, Conversation: name,
			Kind: tasks.KindReply, MaxAttempts: 3, MaxInterruptions: 3, DeadlineAfter: 24 * time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
		}})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		ids = append(ids, id)
	}
	return ids
}

func TestOutbox_IsReadAndDeletedByShard(t *testing.T) {
	s := New(Config{})
	o := s.Outbox()
	ids := submitted(t, s, "c", "c", "c")
	marks := []tasks.Mark{{Shard: tasks.Shard("w", "c")}}
	read, _, err := o.Read(t.Context(), marks, 2)
	if err != nil || len(read) != 2 || read[0].TaskID != ids[0] || read[1].TaskID != ids[1] {
		t.Fatal(read, err)
	}
	if err := o.Delete(t.Context(), read[:1]); err != nil {
		t.Fatal(err)
	}
	if err := o.Delete(t.Context(), read[:1]); err != nil {
		t.Fatal("a second delete:", err)
	}
	marks[0].After = read[1].ID
	if rest, _, err := o.Read(t.Context(), marks, 10); err != nil || len(rest) != 1 || rest[0].TaskID != ids[2] {
		t.Fatal(rest, err)
	}
	if count, _, err := o.Pending(t.Context()); err != nil || count != 2 {
		t.Fatal(count, err)
	}
}

func TestOutbox_ShardsAreSharedAmongTheLiving(t *testing.T) {
	clock := &clock{now: time.Unix(0, 0)}
	o := New(Config{Now: clock.read}).Outbox()
	acquire := func(owner string) []int16 {
		t.Helper()
		own, err := o.Acquire(t.Context(), owner, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return own
	}
	all := func(lists ...[]int16) {
		t.Helper()
		shards := slices.Sorted(slices.Values(slices.Concat(lists...)))
		if len(slices.Compact(shards)) != tasks.Shards || len(shards) != len(slices.Concat(lists...)) {
			t.Fatalf("shards %v", lists)
		}
	}
	all(acquire("a"))
	if b := acquire("b"); len(b) != 0 {
		t.Fatalf("b took %v from a", b)
	}
	a := acquire("a") // gives up what is beyond its share
	b := acquire("b")
	all(a, b)
	if len(a) != tasks.Shards/2 {
		t.Fatalf("a has %v", a)
	}
	if err := o.Resign(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	all(acquire("b"))
	clock.advance(time.Hour)
	all(acquire("c"))
}

func TestOutbox_PromotesWhatIsDue(t *testing.T) {
	clock := &clock{now: time.Unix(0, 0)}
	s := New(Config{Now: clock.read})
	o := s.Outbox()
	ids := submitted(t, s, "early", "late", "cancelled")
	claims, err := s.Claim(t.Context(), tasks.Claimer{Lease: time.Minute}, []tasks.Ref{
		{TaskID: ids[0], Workspace: "w"}, {TaskID: ids[1], Workspace: "w"}, {TaskID: ids[2], Workspace: "w"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var settles []tasks.Settlement
	for i, c := range claims {
		settles = append(settles, tasks.Settlement{
			Assignment: c.Work.Assignment, Outcome: tasks.OutcomeRetry, RetryAfter: time.Duration(i) * 10 * time.Minute, Handoff: true,
		})
	}
	if _, err := s.Settle(t.Context(), settles); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Cancel(t.Context(), "w", ids[2]); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ after, moved, pending int }{{1, 1, 4}, {1, 0, 4}, {60, 1, 5}, {60, 0, 5}} {
		clock.advance(time.Duration(step.after) * time.Minute)
		moved, err := o.Promote(t.Context(), 10)
		count, _, _ := o.Pending(t.Context())
		if err != nil || moved != step.moved || int(count) != step.pending {
			t.Fatalf("moved %d, pending %d, %v; want %+v", moved, count, err, step)
		}
	}
}

func TestKeys(t *testing.T) {
	s := New(Config{})
	hash := tasks.HashKey("secret")
	made, err := s.CreateKey(t.Context(), "w", "name", hash)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.KeyByHash(t.Context(), hash); err != nil || !reflect.DeepEqual(found, made) || found.Revoked() {
		t.Fatal(found, err)
	}
	if err := s.RevokeKey(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if found, err := s.KeyByHash(t.Context(), hash); err != nil || !found.Revoked() {
		t.Fatal(found, err)
	}
	_, err = s.KeyByHash(t.Context(), tasks.HashKey("another"))
	if !errors.Is(err, tasks.ErrNotFound) || !errors.Is(s.RevokeKey(t.Context(), uuid.New()), tasks.ErrNotFound) {
		t.Fatal(err)
	}
}

func TestFault_BeforeChangesNothingAndAfterChangesAll(t *testing.T) {
	for _, committed := range []bool{false, true} {
		broken := errors.New("broken")
		s := New(Config{Fault: func(method string, c bool) error {
			if method == "Submit" && c == committed {
				return broken
			}
			return nil
		}})
		id := uuid.Must(uuid.NewV7())
		_, err := s.Submit(t.Context(), []tasks.Submission{{
			Workspace: "w", Operation: "o", Key: "k", TaskID: id, MessageID: id, Conversation: "c", Kind: tasks.KindReply,
			MaxAttempts: 1, DeadlineAfter: time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
		}})
		if !errors.Is(err, tasks.ErrUnavailable) || !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if _, err := s.Task(t.Context(), "w", id); errors.Is(err, tasks.ErrNotFound) == committed {
			t.Fatalf("committed %t: %v", committed, err)
		}
	}
}
