package postgres

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// TestReplaysLockTheirKeysInOrder: a batch that waits for its first key holds no later one, in whatever order it came.
// Two batches that held what the other wants would be undone one after the other until the server has noticed.
func TestReplaysLockTheirKeysInOrder(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	batch := func(names ...string) (items []tasks.Submission) {
		for _, name := range names {
			s := submission("c")
			s.Key = name
			items = append(items, s)
		}
		return items
	}
	first := batch("a", "b")
	if _, err := k.store.Submit(ctx, first); err != nil {
		t.Fatal(err)
	}
	a, b := k.connect(), k.connect()
	k.exec(a, `begin`)
	k.exec(a, `select from submissions where key = 'a' for update`)
	again := make(chan error, 1)
	go func() {
		out, err := k.store.Submit(context.WithoutCancel(ctx), batch("b", "a"))
		for _, o := range out {
			if !o.Replayed || o.TaskID == uuid.Nil {
				t.Errorf("%+v, want replays", o)
			}
		}
		again <- err
	}()
	k.blocked(1)
	if n := 0; b.QueryRow(ctx, `select count(*) from (select from submissions where key = 'b' for update skip locked) x`).Scan(&n) != nil || n != 1 {
		t.Error("a batch that waits for the key a holds the key b")
	}
	k.exec(a, `commit`)
	if err := <-again; err != nil {
		t.Error(err)
	}
}
