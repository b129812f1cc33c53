package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

func testHub(t *testing.T) *hub {
	t.Helper()
	store := memory.New(memory.Config{})
	c, err := Config{Store: store, Live: store, Keys: store, Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return newHub(c)
}

func (h *hub) mustRegister(t *testing.T, id uuid.UUID) *watcher {
	t.Helper()
	w, p := h.register("w1", id, true)
	if p != nil {
		t.Fatal(p)
	}
	return w
}

// One that asks while the texts are being read, for more than was asked for, must not take what comes for a gap.
func TestHubDeliversOnlyWhatGoesOn(t *testing.T) {
	h, id := testHub(t), uuid.Must(uuid.NewV7())
	far := h.mustRegister(t, id)
	h.tell([]tasks.Progress{{TaskID: id, Status: tasks.StatusRunning, Version: 1, Attempts: 1}})
	far.ask(tasks.LiveCursor{TaskID: id, Version: 1, Index: 5})
	if c := h.cursors(); len(c) != 1 || c[0].Index != 5 {
		t.Fatalf("cursors %+v", c)
	}
	near := h.mustRegister(t, id)
	near.ask(tasks.LiveCursor{TaskID: id, Version: 1, Index: 0})
	pieces := []tasks.LivePiece{{TaskID: id, Version: 1, Index: 5, Tokens: 1}, {TaskID: id, Version: 1, Index: 6, Tokens: 1}}
	h.deliver(pieces)
	if _, got := far.take(); len(got) != 2 {
		t.Errorf("%d pieces for the one who asked", len(got))
	}
	if _, got := near.take(); len(got) != 0 {
		t.Errorf("%+v for the one who wants more", got)
	}
	// Both are served from the least of their cursors, each from its own.
	far.ask(tasks.LiveCursor{TaskID: id, Version: 1, Index: 6})
	if c := h.cursors(); len(c) != 1 || c[0].Index != 0 {
		t.Fatalf("cursors %+v", c)
	}
	h.deliver(append([]tasks.LivePiece{{TaskID: id, Version: 1, Index: 0, Tokens: 5}}, pieces...))
	_, a := far.take()
	_, b := near.take()
	if fmt.Sprint(len(a), len(b)) != "1 3" {
		t.Errorf("%+v and %+v", a, b)
	}
	// Neither has asked again: nothing is read for them.
	if c := h.cursors(); len(c) != 0 {
		t.Errorf("cursors %+v", c)
	}
}

// Whoever leaves takes nothing from those who stay, in any order.
func TestHubForgetsThoseWhoLeave(t *testing.T) {
	h, id := testHub(t), uuid.Must(uuid.NewV7())
	var all []*watcher
	for range 5 {
		all = append(all, h.mustRegister(t, id))
	}
	for n, i := range []int{2, 0, 4, 1, 3} {
		all[i].leave()
		for j, w := range h.topics[id].orNothing() {
			if w.place != j {
				t.Fatalf("the watcher at %d believes to be at %d", j, w.place)
			}
		}
		if h.waiting() != 4-n {
			t.Fatalf("%d wait", h.waiting())
		}
	}
	// One that is late to leave, when others wait for the same task anew.
	old := h.mustRegister(t, id)
	h.tell([]tasks.Progress{{TaskID: id, Status: tasks.StatusCompleted}})
	if len(h.ids()) != 0 {
		t.Error("what has ended is polled for")
	}
	young := h.mustRegister(t, id)
	old.leave()
	if len(h.ids()) != 1 {
		t.Error("the one who came later is not polled for")
	}
	young.leave()
	if len(h.ids()) != 0 || len(h.counts) != 0 {
		t.Error("something is left")
	}
}

func (t *topic) orNothing() []*watcher {
	if t == nil {
		return nil
	}
	return t.watchers
}

func TestWaitIsNotAnsweredByWhatIsNoEnd(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		id := b.submit()
		done := make(chan *tasks.Task, 1)
		go func() {
			task, err := s.await(b.ctx, "w1", id, time.Hour)
			if err != nil {
				t.Error(err)
			}
			done <- task
		}()
		b.settle()
		by := b.api.claim(id)
		b.settle()
		b.api.settle(by, tasks.Settlement{Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "overloaded"}})
		b.settle()
		if len(done) != 0 {
			t.Fatalf("answered with %+v", <-done)
		}
		b.api.finish(id, "x")
		b.settle()
		if len(done) != 1 {
			t.Fatal("not answered")
		}
	})
}

// While the store does not answer, those whose task has ended are not kept for longer than one read may take.
func TestReadsOfTheFinishedAreBoundedTogether(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		for range cap(s.reads) {
			s.reads <- struct{}{} // eight that hang
		}
		began := time.Now()
		_, err := s.finished(b.ctx, "w1", uuid.Must(uuid.NewV7()))
		if asProblem(err).Status != 503 || time.Since(began) > s.limits.ReadTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
	})
}

// Tokens are a courtesy: when they cannot be read, all else is told.
func TestEventsGoOnWithoutTheirTokens(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(func(c *Config) { c.Live = noTexts{c.Live} })
		id := b.submit()
		r := b.watch(s, id, cursor{})
		b.settle()
		by := b.api.claim(id)
		b.settle()
		b.api.complete(by, "x")
		<-r.done
		if r.err != nil || len(r.events) != 3 || r.events[2].kind != eventReply {
			t.Errorf("%v, %q", r.err, summary(r.events))
		}
	})
}

type noTexts struct{ tasks.LiveTexts }

func (noTexts) Live(context.Context, []tasks.LiveCursor) ([]tasks.LivePiece, error) {
	return nil, errors.New("gone")
}

// slowly answers when it is told to.
type slowly struct {
	tasks.Watched
	asks chan int
}

func (s slowly) Progress(ctx context.Context, ids []uuid.UUID) ([]tasks.Progress, error) {
	s.asks <- len(ids)
	return s.Watched.Progress(ctx, ids)
}

// Those who connect while others are looked for are looked for together; each is told of its own only.
func TestThoseWhoConnectAtOnceAreLookedForTogether(t *testing.T) {
	inBubble(t, func(b *bubble) {
		watched := slowly{Watched: b.store, asks: make(chan int)}
		s := b.server(func(c *Config) { c.Watched = watched })
		id := b.submit()
		answers := make(chan error, 1000)
		ask := func(workspace string, id uuid.UUID) {
			go func() {
				p, err := s.look(b.ctx, workspace, id)
				if err == nil && (p.TaskID != id || p.Status != tasks.StatusQueued) {
					err = fmt.Errorf("progress %+v", p)
				}
				answers <- err
			}()
		}
		ask("w1", id)
		synctest.Wait()
		for range 300 {
			ask("w1", id)
			ask("w2", id)
			ask("w1", uuid.Must(uuid.NewV7()))
		}
		synctest.Wait()
		if n := <-watched.asks; n != 1 {
			t.Errorf("the first look is for %d", n)
		}
		if n := <-watched.asks; n != 900 {
			t.Errorf("the second look is for %d", n)
		}
		found := 0
		for range 901 {
			if err := <-answers; err == nil {
				found++
			} else if !errors.Is(err, tasks.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if found != 301 {
			t.Errorf("%d were found, want 301", found)
		}
		if n := s.hub.queries.Load(); n != 2 {
			t.Errorf("%d queries", n)
		}
	})
}

func TestLooksOfAServerThatHasStoppedAreRefused(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := newLooks(testHub(t))
		ctx, stop := context.WithCancel(b.ctx)
		stop()
		l.run(ctx)
		began := time.Now()
		if _, err := l.look(b.ctx, "w1", uuid.Must(uuid.NewV7())); asProblem(err).Status != 503 || time.Now() != began {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestHubHoldsLittleForOne(t *testing.T) {
	h, id := testHub(t), uuid.Must(uuid.NewV7())
	w := h.mustRegister(t, id)
	h.tell([]tasks.Progress{{TaskID: id, Status: tasks.StatusRunning, Version: 1, Attempts: 1}})
	w.ask(tasks.LiveCursor{TaskID: id, Version: 1})
	h.cursors()
	var pieces []tasks.LivePiece
	for i := range 200 {
		pieces = append(pieces, tasks.LivePiece{TaskID: id, Version: 1, Index: i, Tokens: 1, Text: string(make([]byte, 1<<10))})
	}
	h.deliver(pieces)
	if _, got := w.take(); len(got) != liveBuffer>>10+1 {
		t.Errorf("%d pieces of 1 KiB are held", len(got))
	}
}
