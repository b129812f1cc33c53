package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// reader collects the events of a task.
type reader struct {
	events []event // without those that say that nothing happened
	alive  atomic.Int64
	err    error
	done   chan struct{} // closed when all is there
}

// watch reads on one server until the end.
func (b *bubble) watch(s *Server, id uuid.UUID, from cursor) *reader {
	r := &reader{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = s.watch(b.ctx, "w1", id, from, r.see)
	}()
	return r
}

func (r *reader) see(e event) bool {
	if e.kind == eventAlive {
		r.alive.Add(1)
		return true
	}
	r.events = append(r.events, e)
	return true
}

// watchAnew goes to the next server after each event.
func (b *bubble) watchAnew(servers []*Server, id uuid.UUID) *reader {
	r := &reader{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		var at cursor
		for n := 0; r.err == nil && !at.status.Terminal() && b.ctx.Err() == nil; n++ {
			// As a client has it.
			from, p := parseCursor("x", at.String())
			if p != nil {
				r.err = p
				return
			}
			r.err = servers[n%len(servers)].watch(b.ctx, "w1", id, from, func(e event) bool {
				r.see(e)
				at = e.at
				return e.kind == eventAlive
			})
		}
	}()
	return r
}

// shown is what a reader that keeps to the rule has on its screen.
type shown struct {
	version int64 // of its tokens
	next    int
	text    string
	end     *tasks.Task
}

// show plays events to a screen, and reports what may not be.
func (s *shown) show(e event) error {
	if s.end != nil {
		return fmt.Errorf("%s after the end", e.kind)
	}
	switch e.kind {
	case eventReset:
		*s = shown{}
	case eventToken:
		if s.text != "" && e.at.version != s.version {
			return fmt.Errorf("a token of version %d among those of %d", e.at.version, s.version)
		}
		if e.index != s.next {
			return fmt.Errorf("token %d where %d was next", e.index, s.next)
		}
		s.version, s.next, s.text = e.at.version, e.at.index, s.text+e.text
	case eventReply, eventError:
		s.end = e.task
	}
	return nil
}

func summary(events []event) (all []string) {
	for _, e := range events {
		line := fmt.Sprintf("%s %v attempt %d, %d %q", e.kind, e.at, e.attempt, e.index, e.text)
		if e.task != nil {
			line += fmt.Sprintf(" %s %d", e.task.Status, e.task.Attempts)
		}
		all = append(all, line)
	}
	return all
}

// A reader that goes to another process after each event is told what one is told that stays; neither sees tokens of two
// attempts as one text, and both get the end once.
func TestI1_ResumeAtEveryEventIsTheSameSequence(t *testing.T) {
	for seed := range uint64(60) {
		inBubble(t, func(b *bubble) {
			random := rand.New(rand.NewPCG(seed, 6))
			servers := []*Server{b.server(nil), b.server(nil), b.server(nil)}
			id := b.submit()
			stays, moves := b.watch(servers[0], id, cursor{}), b.watchAnew(servers, id)
			script(b, random, id)
			<-stays.done
			<-moves.done
			if stays.err != nil || moves.err != nil {
				t.Fatalf("seed %d: %v, %v", seed, stays.err, moves.err)
			}
			if a, c := summary(stays.events), summary(moves.events); !slices.Equal(a, c) {
				t.Fatalf("seed %d: one that stays was told\n%q\none that moves\n%q", seed, a, c)
			}
			var screen shown
			screens := []shown{screen}
			for i, e := range stays.events {
				if err := screen.show(e); err != nil {
					t.Fatalf("seed %d, event %d: %v in\n%q", seed, i, err, summary(stays.events))
				}
				screens = append(screens, screen)
			}
			if screen.end == nil {
				t.Fatalf("seed %d: no end in\n%q", seed, summary(stays.events))
			}
			// One that comes back when all is over gets the end, and drops what was not of its attempt.
			for i, e := range stays.events[:len(stays.events)-1] {
				late := b.watch(servers[1], id, e.at)
				<-late.done
				screen := screens[i+1]
				for _, e := range late.events {
					if err := screen.show(e); err != nil {
						t.Fatalf("seed %d, late after event %d: %v", seed, i, err)
					}
				}
				if screen.end == nil || !reflect.DeepEqual(screen.end, screens[len(screens)-1].end) || screen.text != "" && screen.version != screen.end.Version {
					t.Fatalf("seed %d, late after event %d: %+v", seed, i, screen)
				}
			}
		})
	}
}

// script is a task's life: attempts that stream, stumble, are released and taken over, and an end.
func script(b *bubble, random *rand.Rand, id uuid.UUID) {
	b.settle()
	for {
		by := b.api.claim(id)
		task, err := b.store.Task(b.ctx, "w1", id)
		if err != nil {
			b.Fatal(err)
		}
		b.settle()
		index := 0
		for range random.IntN(4) {
			var pieces []tasks.LivePiece
			for range 1 + random.IntN(2) {
				n := 1 + random.IntN(3)
				pieces = append(pieces, tasks.LivePiece{TaskID: id, Version: by.Version, Attempt: task.Attempts, Index: index, Tokens: n,
					Text: fmt.Sprintf("v%d:%d ", by.Version, index)})
				if index += n; random.IntN(8) == 0 {
					index += 2 // something is lost
				}
			}
			b.publish(pieces...)
			b.settle()
		}
		next := random.IntN(8)
		if next == 0 { // it dies, and is taken over
			time.Sleep(2 * time.Minute)
			continue
		}
		switch next {
		case 1, 2:
			b.api.settle(by, tasks.Settlement{Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "overloaded"}, RetryAfter: time.Second})
		case 3:
			b.api.settle(by, tasks.Settlement{Outcome: tasks.OutcomeRelease})
		case 4:
			b.api.settle(by, tasks.Settlement{Outcome: tasks.OutcomeFail, Failure: tasks.Failure{Class: "permanent"}})
		case 5:
			if _, _, err := b.store.Cancel(b.ctx, "w1", id); err != nil {
				b.Fatal(err)
			}
		default:
			b.api.complete(by, "the reply")
		}
		if next != 0 && random.IntN(2) == 0 {
			if err := b.store.Drop(b.ctx, []tasks.Assignment{by}); err != nil {
				b.Fatal(err)
			}
		}
		b.settle()
		time.Sleep(2 * time.Second) // it is due again
		if next > 3 {
			return
		}
	}
}

func TestWatchSkipsWhatComesAfterALostToken(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		id := b.submit()
		by := b.api.claim(id)
		r := b.watch(s, id, cursor{})
		piece := func(index, n int) tasks.LivePiece {
			return tasks.LivePiece{TaskID: id, Version: by.Version, Attempt: 1, Index: index, Tokens: n, Text: fmt.Sprint(index)}
		}
		b.publish(piece(0, 2))
		b.settle()
		b.publish(piece(5, 1))
		b.settle()
		b.publish(piece(6, 1))
		b.settle()
		late := b.watch(s, id, cursor{}) // the text has the gap for everyone
		b.settle()
		b.api.complete(by, "all of it")
		for _, r := range []*reader{r, late} {
			<-r.done
			var kinds []string
			for _, e := range r.events {
				kinds = append(kinds, e.kind)
			}
			if got := fmt.Sprint(kinds); got != "[status token reply]" {
				t.Error(got)
			}
		}
	})
}

func TestWatchSaysThatItIsAliveAndEndsWhenTheServerDrains(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		r := b.watch(s, b.submit(), cursor{})
		b.settle()
		if n := r.alive.Load(); n != 1 {
			t.Fatalf("%d signs of life", n)
		}
		time.Sleep(heartbeat - time.Second)
		b.settle()
		if n := r.alive.Load(); n != 2 {
			t.Fatalf("%d signs of life", n)
		}
		s.Drain()
		<-r.done
		if !errors.Is(r.err, errDraining) || s.hub.waiting() != 0 || len(r.events) != 1 {
			t.Fatalf("%v, %d waiting, %q", r.err, s.hub.waiting(), summary(r.events))
		}
	})
}

// A cursor of a time that has not been is that of another database: what the reader has is void.
func TestWatchFromAFutureCursorBeginsAnew(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		id := b.submit()
		by := b.api.claim(id)
		r := b.watch(s, id, cursor{status: tasks.StatusRunning, version: 7, index: 3})
		b.settle()
		b.api.complete(by, "x")
		<-r.done
		want := []string{`reset none.1.0 attempt 1, 0 ""`, `status running.1.0 attempt 0, 0 "" running 1`, `reply completed.1.0 attempt 0, 0 "" completed 1`}
		if got := summary(r.events); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

// What one slow reader has not taken is in the store, and not here.
func TestWatchKeepsNothingForASlowReader(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		id := b.submit()
		by := b.api.claim(id)
		ctx, cancel := context.WithCancel(b.ctx)
		taken := make(chan event)
		done := make(chan error)
		go func() {
			done <- s.watch(ctx, "w1", id, cursor{}, func(e event) bool {
				select {
				case taken <- e:
				case <-ctx.Done():
				}
				return ctx.Err() == nil
			})
		}()
		<-taken // alive
		<-taken // status
		text := make([]byte, 1<<10)
		const n = 200
		var pieces []tasks.LivePiece
		for i := range n {
			pieces = append(pieces, tasks.LivePiece{TaskID: id, Version: by.Version, Attempt: 1, Index: i, Tokens: 1, Text: string(text)})
		}
		b.publish(pieces[:1]...)
		b.settle()
		<-taken
		b.publish(pieces[1:]...)
		b.settle()
		if c := s.hub.cursors(); len(c) > 0 {
			t.Errorf("more is asked for: %+v", c)
		}
		for i := range n - 1 { // and it gets them all
			if e := <-taken; e.index != i+1 {
				t.Fatalf("token %d, want %d", e.index, i+1)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCursors(t *testing.T) {
	for _, c := range []cursor{{}, {tasks.StatusRunning, 3, 17}, {tasks.StatusCompleted, 1 << 62, 1<<31 - 1}} {
		if got, p := parseCursor("x", c.String()); p != nil || got != c {
			t.Errorf("%v became %v, %v", c, got, p)
		}
	}
	for _, text := range []string{"", "x", "running", "running.1", "running.1.2.3", "running.-1.0", "running.1.-1", "running.01.0", "running.+1.0",
		"asleep.1.1", ".1.1", "running.1.2147483648", "running.9223372036854775808.0", "running.1.0 "} {
		if c, p := parseCursor("x", text); p == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("running.3.17")
	f.Add("none.0.0")
	f.Fuzz(func(t *testing.T, text string) {
		if c, p := parseCursor("x", text); p == nil && c.String() != text {
			t.Errorf("%q is read as %v", text, c)
		}
	})
}

// Texts and progress are read one after the other, and a poll may be older than the look that a watch begins with.
func TestTellerPassesOverWhatIsNotOfNow(t *testing.T) {
	var r reader
	tell := teller{see: r.see, now: tasks.Progress{Status: tasks.StatusRunning, Version: 2, Attempts: 2}}
	tell.begin()
	piece := func(version int64, text string) tasks.LivePiece {
		return tasks.LivePiece{Version: version, Attempt: int(version), Tokens: 1, Text: text}
	}
	tell.tokens([]tasks.LivePiece{piece(1, "old"), piece(2, "now"), piece(3, "soon")})
	tell.advance(tasks.Progress{Status: tasks.StatusQueued, Version: 1, Attempts: 1})
	tell.advance(tasks.Progress{Status: tasks.StatusQueued, Version: 2, Attempts: 2})
	tell.tokens([]tasks.LivePiece{{Version: 2, Index: 1, Tokens: 1, Text: "late"}})
	tell.advance(tasks.Progress{Status: tasks.StatusRunning, Version: 2, Attempts: 2})
	tell.advance(tasks.Progress{})
	want := []string{
		`status running.2.0 attempt 0, 0 "" running 2`, `token running.2.1 attempt 2, 0 "now"`, `status queued.2.1 attempt 0, 0 "" queued 2`,
	}
	if got := summary(r.events); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
