package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// doorman is a gate that a test opens and closes, and that keeps count.
type doorman struct {
	mu                     sync.Mutex
	closed                 bool
	place                  time.Duration // wait of those that are let through
	asked, let, back, done int
	tokens                 int64
	failures               []llm.Class
}

func (d *doorman) Admit(string) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.closed {
		return 20 * time.Millisecond, false
	}
	d.let++
	return d.place, true
}

func (d *doorman) Withdraw(string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.back++
}

func (d *doorman) Done(_ string, tokens int64, f *llm.Failure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done++
	d.tokens += tokens
	if f != nil {
		d.failures = append(d.failures, f.Class)
	}
}

func (d *doorman) Blocked() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 20 * time.Millisecond
	}
	return 0
}

func (d *doorman) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

func (d *doorman) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = false
}

// balance is how many were let through, given back and done.
func (d *doorman) balance() (let, back, done int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.let, d.back, d.done
}

func guarded(d *doorman) func(*consumer.Config) { return func(c *consumer.Config) { c.Gate = d } }

// I5: what the gate keeps back costs no attempt, and does not end for it; what is finished is settled all the same.
func TestI5_AClosedGateBurnsNoAttempts(t *testing.T) {
	w := newWorld(t, 1)
	d := &doorman{closed: true}
	waits := w.submit("a", "waits")
	cancelled := w.submit("b", "cancelled")
	if _, _, err := w.store.Cancel(t.Context(), workspace, cancelled); err != nil {
		t.Fatal(err)
	}
	w.publish(0, "b", cancelled)
	w.publish(0, "a", waits)
	w.start("one", guarded(d))
	eventually(t, "the cancelled task's record is settled", func() bool { return w.committed(0) == 1 })
	eventually(t, "the other one is asked for again", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.asked > 10
	})
	if task := w.task(waits); task.Attempts != 0 || task.Status != tasks.StatusQueued || w.model.called("waits") != 0 {
		t.Fatalf("%+v, %d calls", task, w.model.called("waits"))
	}
	// Judging it is a statement for the store, and not one for each time the gate is asked.
	if n := w.counted("Claim", 0); n > 5 {
		t.Errorf("%d claims", n)
	}
	d.open()
	w.finished(waits, tasks.StatusCompleted)
	if task := w.task(waits); task.Attempts != 1 {
		t.Errorf("%d attempts", task.Attempts)
	}
}

func TestGateHearsOfEveryAdmission(t *testing.T) {
	w := newWorld(t, 1)
	d := &doorman{place: 20 * time.Millisecond}
	w.model.on("busy", func(_ context.Context, n int) (llm.Answer, error) {
		if n == 1 {
			return fails(llm.Overloaded, 0)
		}
		return answer("done"), nil
	})
	cancelled := w.submit("c", "cancelled")
	if _, _, err := w.store.Cancel(t.Context(), workspace, cancelled); err != nil {
		t.Fatal(err)
	}
	w.publish(0, "c", cancelled)
	busy, plain := w.send(0, "a", "busy"), w.send(0, "b", "plain")
	w.start("one", guarded(d))
	w.finished(busy, tasks.StatusCompleted)
	w.finished(plain, tasks.StatusCompleted)
	eventually(t, "every admission is accounted for", func() bool {
		let, back, done := d.balance()
		return let == 4 && back == 1 && done == 3
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tokens != 16 || len(d.failures) != 1 || d.failures[0] != llm.Overloaded {
		t.Errorf("%d tokens, failures %v", d.tokens, d.failures)
	}
	if d.asked != 4 {
		t.Errorf("asked %d times: one that has its place must not ask again", d.asked)
	}
}

// I5: who waits for its place when the gate closes does not go through it.
func TestI5_APlaceIsNoWayThroughAClosedGate(t *testing.T) {
	w := newWorld(t, 1)
	d := &doorman{place: 100 * time.Millisecond}
	id := w.send(0, "a", "hello")
	w.start("one", guarded(d))
	eventually(t, "it has its place", func() bool { let, _, _ := d.balance(); return let == 1 })
	d.shut()
	eventually(t, "the place is given back", func() bool { _, back, _ := d.balance(); return back == 1 })
	if task := w.task(id); task.Attempts != 0 {
		t.Errorf("%d attempts", task.Attempts)
	}
	d.open()
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "every admission is accounted for", func() bool { let, back, done := d.balance(); return let == back+done && done == 1 })
}

// A record that has its place and waits for a slot when its partition moves away is called elsewhere: the place goes back,
// or the gate would take it for a call that never ends.
func TestAPlaceGoesBackWhenThePartitionMovesBeforeASlotIsFree(t *testing.T) {
	w := newWorld(t, 1)
	d := &doorman{place: 50 * time.Millisecond}
	open := w.model.gate("first")
	defer open()
	release := make(chan struct{})
	defer sync.OnceFunc(func() { close(release) })()
	wait := func(context.Context, int) (llm.Answer, error) { <-release; return answer("done"), nil }
	w.model.on("second", wait)
	w.model.on("third", wait)
	one := w.start("one", guarded(d), func(c *consumer.Config) { c.MaxInFlight = 1 })
	first := w.send(0, "a", "first")
	eventually(t, "the slot is taken", func() bool { return w.model.called("first") == 1 })
	w.send(0, "b", "second")
	w.send(0, "c", "third")
	open()
	w.finished(first, tasks.StatusCompleted)
	eventually(t, "both have their places, and one of them the slot", func() bool {
		let, _, _ := d.balance()
		return let == 3 && w.model.open.Load() == 1
	})
	one.stop(nil)
	eventually(t, "the other place is given back, before the drain is over", func() bool { _, back, _ := d.balance(); return back == 1 })
}
