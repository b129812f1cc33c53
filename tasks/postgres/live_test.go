package postgres

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func TestSweepLiveTexts(t *testing.T) {
	k := newKit(t)
	old, young := uuid.New(), uuid.New()
	for i, id := range []uuid.UUID{old, old, old, young} {
		if err := k.store.Publish(t.Context(), []tasks.LivePiece{{TaskID: id, Version: 1, Index: i, Tokens: 1, Text: "a"}}); err != nil {
			t.Fatal(err)
		}
	}
	k.exec(k.admin, `update live_texts set created_at = created_at - interval '2 hours' where task_id = $1`, old)
	for _, step := range []struct{ limit, swept int }{{2, 2}, {10, 1}, {10, 0}} {
		if n, err := k.store.SweepLiveTexts(t.Context(), time.Hour, step.limit); err != nil || n != step.swept {
			t.Errorf("swept %d, %v; want %d", n, err, step.swept)
		}
	}
	if left, err := k.store.Live(t.Context(), []tasks.LiveCursor{{TaskID: old}, {TaskID: young}}); err != nil || len(left) != 1 || left[0].TaskID != young {
		t.Errorf("left %+v, %v", left, err)
	}
}

// TestLiveIsBounded: one answer holds so much and no more, and whoever goes on asking gets all of it.
func TestLiveIsBounded(t *testing.T) {
	k := newKit(t)
	const n = liveBytes/tasks.MaxLiveText + 8
	text := strings.Repeat("a", tasks.MaxLiveText/2)
	var cursors []tasks.LiveCursor
	for range n {
		id := uuid.New()
		cursors = append(cursors, tasks.LiveCursor{TaskID: id})
		pieces := []tasks.LivePiece{{TaskID: id, Version: 1, Tokens: 1, Text: text}, {TaskID: id, Version: 1, Index: 1, Tokens: 1, Text: text}}
		if err := k.store.Publish(t.Context(), pieces); err != nil {
			t.Fatal(err)
		}
	}
	got := 0
	for asked := 0; got < 2*n && asked < 5; asked++ {
		pieces, err := k.store.Live(t.Context(), cursors)
		if err != nil || len(pieces)*len(text) > liveBytes+len(text) {
			t.Fatalf("%d pieces, %v", len(pieces), err)
		}
		for _, p := range pieces {
			for i := range cursors {
				if c := &cursors[i]; c.TaskID == p.TaskID {
					c.Version, c.Index = p.Version, p.Index+p.Tokens
				}
			}
		}
		got += len(pieces)
	}
	if got != 2*n {
		t.Errorf("%d pieces, want %d", got, 2*n)
	}
}

// TestTooMuchLiveTextIsNotKept: after the first piece that is too much, nothing is stored at all.
func TestTooMuchLiveTextIsNotKept(t *testing.T) {
	k := newKit(t)
	id := uuid.New()
	for i := range 5 {
		p := tasks.LivePiece{TaskID: id, Version: 1, Index: i, Tokens: 1, Text: strings.Repeat("a", tasks.MaxLiveText/2)}
		if err := k.store.Publish(t.Context(), []tasks.LivePiece{p}); err != nil {
			t.Fatal(err)
		}
	}
	if rows, bytes := count(t, k.store.pool, `select count(*) from live_texts`), count(t, k.store.pool, `select sum(length(text)) from live_texts`); rows != 3 || bytes != tasks.MaxLiveText {
		t.Errorf("%d rows with %d bytes, want two and a mark", rows, bytes)
	}
}

// TestLiveTextsOfTwoWorkersAtOnce: whichever comes first, a reader sees tokens of one attempt.
func TestLiveTextsOfTwoWorkersAtOnce(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	id := uuid.New()
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		cursor := tasks.LiveCursor{TaskID: id}
		for {
			pieces, err := k.store.Live(ctx, []tasks.LiveCursor{cursor})
			if err != nil {
				t.Error(err)
				return
			}
			for i, p := range pieces {
				if p.Version < cursor.Version || p.Version != pieces[0].Version || i > 0 && p.Index <= pieces[i-1].Index {
					t.Errorf("after version %d: %+v", cursor.Version, pieces)
					return
				}
				cursor.Version, cursor.Index = p.Version, p.Index+p.Tokens
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for version := range int64(4) {
		writers.Go(func() {
			for i := range 60 {
				if err := k.store.Publish(ctx, []tasks.LivePiece{{TaskID: id, Version: version + 1, Index: i, Tokens: 1, Text: "a"}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if left, err := k.store.Live(ctx, []tasks.LiveCursor{{TaskID: id}}); err != nil || len(left) != 60 || left[0].Version != 4 {
		t.Errorf("%d pieces, %v", len(left), err)
	}
}
