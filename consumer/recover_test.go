package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// archive is a model that remembers answers, so that lost ones can be looked up.
type archive struct {
	*model
	sends  bool // its look-ups are requests of their own
	silent bool // calls are found by their names alone, and nothing is noted
	mu     sync.Mutex
	asked  []llm.Lost
	says   func(lost llm.Lost) (llm.Answer, error)
}

func (a *archive) Recovers() bool { return true }

func (a *archive) Asks() bool { return !a.sends }

func (a *archive) Recover(_ context.Context, _ llm.Request, lost llm.Lost) (llm.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, lost)
	return a.says(lost)
}

func (a *archive) looked() []llm.Lost {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]llm.Lost(nil), a.asked...)
}

// Call notes the attempt's name before it does anything, as an adapter with a key does.
func (a *archive) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	if a.silent {
		return a.model.Call(ctx, req)
	}
	if err := req.Noted(ctx, "ref of "+req.Op); err != nil {
		return llm.Answer{}, &llm.Failure{Class: llm.NotSent, Message: "could not be noted", Err: err}
	}
	return a.model.Call(ctx, req)
}

func (w *world) archive(says func(llm.Lost) (llm.Answer, error)) *archive {
	return &archive{model: w.model, says: says}
}

func found(text string) func(llm.Lost) (llm.Answer, error) {
	return func(llm.Lost) (llm.Answer, error) {
		a := answer(text)
		a.WireRequests = 0
		return a, nil
	}
}

func noTrace(llm.Lost) (llm.Answer, error) {
	return llm.Answer{}, &llm.Failure{Class: llm.Ambiguous, Message: "not found, which is no proof", Err: llm.ErrNoTrace}
}

func (w *world) ledger(id uuid.UUID) []tasks.Attempt {
	w.t.Helper()
	list, err := w.tasks.Attempts(w.t.Context(), workspace, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func stopping(s *tasks.Submission) { s.OnAmbiguous = tasks.AmbiguousStop }

// I5, I7: an answer that was lost is looked up before there is a second call, by what was noted before the first one; it
// is paid for once, in the row of the call that made it.
func TestI5_ALostAnswerIsLookedUpBeforeASecondCall(t *testing.T) {
	for _, policy := range []tasks.OnAmbiguous{tasks.AmbiguousRetry, tasks.AmbiguousStop} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, 1)
			a := w.archive(found("the lost answer"))
			w.model.on("hello", func(context.Context, int) (llm.Answer, error) { return fails(llm.Ambiguous, 0) })
			id := w.send(0, "a", "hello", func(s *tasks.Submission) { s.OnAmbiguous = policy })
			w.startWith(a, "one")
			w.finished(id, tasks.StatusCompleted)
			if n := w.model.called("hello"); n != 1 {
				t.Errorf("%d calls", n)
			}
			looked := a.looked()
			if len(looked) != 1 || looked[0].Ref != "ref of "+looked[0].Op || !strings.HasSuffix(looked[0].Op, "-1") || !looked[0].Same || looked[0].Age <= 0 {
				t.Errorf("looked for %+v", looked)
			}
			task, list := w.task(id), w.ledger(id)
			if task.Reply == nil || task.Reply.Text != "the lost answer" || len(list) != 2 {
				t.Fatalf("%+v, %d attempts", task, len(list))
			}
			first, second := list[0], list[1]
			if first.InputTokens == nil || *first.InputTokens != 3 || first.WireRequests != 1 {
				t.Errorf("the call that made the answer: %+v", first)
			}
			if second.Recovered != first.Version || second.WireRequests != 0 || second.PicoUSD == nil || *second.PicoUSD != 0 {
				t.Errorf("the attempt that found it: %+v", second)
			}
			if task.Cost.InputTokens != 3 || task.Cost.OutputTokens != 5 || task.Cost.UnknownAttempts != 0 {
				t.Errorf("cost %+v", task.Cost)
			}
		})
	}
}

// A miss is not proof: the task's policy decides, and nothing is called a second time against it.
func TestI5_AMissIsNoProof(t *testing.T) {
	w := newWorld(t, 1)
	a := w.archive(noTrace)
	ambiguousOnce := func(_ context.Context, n int) (llm.Answer, error) {
		if n == 1 {
			return fails(llm.Ambiguous, 0)
		}
		return answer("made again"), nil
	}
	w.model.on("again", ambiguousOnce)
	w.model.on("never", ambiguousOnce)
	again, never := w.send(0, "a", "again"), w.send(0, "b", "never", stopping)
	w.startWith(a, "one")
	w.finished(again, tasks.StatusCompleted)
	w.finished(never, tasks.StatusFailed)
	if w.model.called("again") != 2 || w.model.called("never") != 1 {
		t.Errorf("%d and %d calls", w.model.called("again"), w.model.called("never"))
	}
	if task := w.task(again); task.Cost.UnknownAttempts != 1 {
		t.Errorf("the first call may be charged: %+v", task.Cost)
	}
	if f := w.task(never).Failure; f == nil || f.Class != tasks.ClassStopOnUnsure || !strings.Contains(f.Message, "no proof") {
		t.Errorf("%+v", f)
	}
}

// I5: the last attempt of a budget has nobody after it to look: it looks itself, where that sends nothing.
func TestI5_TheLastAttemptLooksForItsOwnAnswer(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sends bool
		says  func(llm.Lost) (llm.Answer, error)
		want  tasks.Status
	}{
		{name: "found", says: found("the lost answer"), want: tasks.StatusCompleted},
		{name: "no trace", says: noTrace, want: tasks.StatusFailed},
		{name: "a look-up that sends", sends: true, says: found("a second request"), want: tasks.StatusFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			a := w.archive(tc.says)
			a.sends = tc.sends
			w.model.on("hello", func(context.Context, int) (llm.Answer, error) { return fails(llm.Ambiguous, 0) })
			id := w.send(0, "a", "hello", func(s *tasks.Submission) { s.MaxAttempts = 1 })
			w.startWith(a, "one")
			w.finished(id, tc.want)
			list := w.ledger(id)
			if len(list) != 1 || list[0].WireRequests != 1 || w.model.called("hello") != 1 {
				t.Errorf("%d calls, ledger %+v", w.model.called("hello"), list)
			}
			if looked := a.looked(); len(looked) > 0 == tc.sends || !tc.sends && looked[0].Ref == "" {
				t.Errorf("looked for %+v", looked)
			}
			if f := w.task(id).Failure; tc.want == tasks.StatusFailed && (f == nil || f.Class != string(llm.Ambiguous)) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// A look-up that cannot be made says nothing: no second call, also not for a task that would accept one.
func TestI5_NoCallWhileTheLookUpFails(t *testing.T) {
	w := newWorld(t, 1)
	tries := 0
	a := w.archive(nil)
	a.says = func(lost llm.Lost) (llm.Answer, error) {
		if tries++; tries < 3 {
			return llm.Answer{}, &llm.Failure{Class: llm.NotSent, Message: "cannot be asked"}
		}
		return found("at last")(lost)
	}
	w.model.on("hello", func(context.Context, int) (llm.Answer, error) { return fails(llm.Ambiguous, 0) })
	id := w.send(0, "a", "hello", func(s *tasks.Submission) { s.MaxAttempts = 6 })
	w.startWith(a, "one")
	w.finished(id, tasks.StatusCompleted)
	if n := w.model.called("hello"); n != 1 || len(a.looked()) != 3 {
		t.Errorf("%d calls, %d look-ups", n, len(a.looked()))
	}
	for _, lost := range a.looked() {
		if !strings.HasSuffix(lost.Op, "-1") {
			t.Errorf("looked for %s, which was never called", lost.Op)
		}
	}
}

// What the lost call turns out to have come to is this attempt's failure, and is not looked up again.
func TestI5_ALostCallThatFailedIsResolved(t *testing.T) {
	w := newWorld(t, 1)
	a := w.archive(func(llm.Lost) (llm.Answer, error) {
		return llm.Answer{}, &llm.Failure{Class: llm.Overloaded, Message: "it had failed"}
	})
	w.model.on("hello", func(_ context.Context, n int) (llm.Answer, error) {
		if n == 1 {
			return fails(llm.Ambiguous, 0)
		}
		return answer("made again"), nil
	})
	id := w.send(0, "a", "hello", func(s *tasks.Submission) { s.MaxAttempts = 4 })
	w.startWith(a, "one")
	w.finished(id, tasks.StatusCompleted)
	if len(a.looked()) != 1 || w.model.called("hello") != 2 {
		t.Errorf("%d look-ups, %d calls", len(a.looked()), w.model.called("hello"))
	}
}

// I5: an attempt that dies while it looks, or whose look-up is lost in its turn, leaves the same call to look for.
func TestI5_TheSameCallIsLookedForAgain(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("found by name %v", silent), func(t *testing.T) { theSameCallIsLookedForAgain(t, silent) })
	}
}

func theSameCallIsLookedForAgain(t *testing.T, silent bool) {
	w := newWorld(t, 1)
	tries := 0
	a := w.archive(nil)
	a.silent = silent
	a.says = func(lost llm.Lost) (llm.Answer, error) {
		if tries++; tries < 3 { // as a request under the key that is cut off
			return llm.Answer{}, &llm.Failure{Class: llm.Ambiguous, Message: "cut off", Report: llm.Report{WireRequests: 1}}
		}
		return found("at last")(lost)
	}
	w.model.on("hello", func(context.Context, int) (llm.Answer, error) { return fails(llm.Ambiguous, 0) })
	id := w.send(0, "a", "hello", func(s *tasks.Submission) { s.MaxAttempts = 6 })
	w.startWith(a, "one")
	w.finished(id, tasks.StatusCompleted)
	looked := a.looked()
	if len(looked) != 3 || w.model.called("hello") != 1 {
		t.Fatalf("%d look-ups, %d calls", len(looked), w.model.called("hello"))
	}
	for _, lost := range looked[1:] {
		if silent && lost.Op != looked[0].Op || !silent && (lost.Ref != looked[0].Ref || !lost.Same) {
			t.Errorf("looked for %+v after %+v", lost, looked[0])
		}
	}
}

// I7: what a lost call that brought no answer is known to have cost is written to its own row.
func TestI7_ALostCallThatIsKnownToHaveCost(t *testing.T) {
	w := newWorld(t, 1)
	a := w.archive(func(llm.Lost) (llm.Answer, error) {
		return llm.Answer{}, &llm.Failure{Class: llm.Ambiguous, Message: "it had failed half-way", Err: llm.ErrNoTrace,
			Report: llm.Report{Usage: &llm.Usage{InputTokens: 7, OutputTokens: 9}}}
	})
	once := func(_ context.Context, n int) (llm.Answer, error) {
		if n == 1 {
			return fails(llm.Ambiguous, 0)
		}
		return answer("made again"), nil
	}
	w.model.on("again", once)
	w.model.on("never", once)
	again, never := w.send(0, "a", "again", func(s *tasks.Submission) { s.MaxAttempts = 4 }), w.send(0, "b", "never", stopping)
	w.startWith(a, "one")
	w.finished(again, tasks.StatusCompleted)
	w.finished(never, tasks.StatusFailed)
	if w.model.called("again") != 2 || w.model.called("never") != 1 {
		t.Errorf("%d and %d calls", w.model.called("again"), w.model.called("never"))
	}
	for _, id := range []uuid.UUID{again, never} {
		if first := w.ledger(id)[0]; first.InputTokens == nil || *first.InputTokens != 7 || *first.OutputTokens != 9 {
			t.Errorf("the lost call's row: %+v", first)
		}
	}
	if c := w.task(again).Cost; c.InputTokens != 10 || c.OutputTokens != 14 {
		t.Errorf("cost %+v", c)
	}
}

// I5: a worker that dies in its call leaves an attempt of unknown fate. The next worker looks for its answer; without a way
// to, a task that says stop is not called again.
func TestI5_TakeoverOfACallOfUnknownFate(t *testing.T) {
	w := newWorld(t, 1)
	id, stop := w.submit("a", "lost"), w.submit("b", "lost too", stopping)
	for _, task := range []uuid.UUID{id, stop} {
		got, err := w.store.Claim(t.Context(), tasks.Claimer{Worker: "dead", Lease: time.Millisecond, ParkMax: time.Minute, Provider: "model"},
			[]tasks.Ref{{TaskID: task, Workspace: workspace}})
		if err != nil || got[0].Decision != tasks.DecisionClaimed {
			t.Fatal(got, err)
		}
	}
	w.publish(0, "a", id)
	able := w.startWith(w.archive(found("the dead worker's answer")), "two")
	w.finished(id, tasks.StatusCompleted)
	if w.model.called("lost") != 0 {
		t.Error("it was called again")
	}
	able.shutdown(t)

	w.start("three")
	w.publish(0, "b", stop)
	w.finished(stop, tasks.StatusFailed)
	if w.model.called("lost too") != 0 {
		t.Error("a task that says stop was called again")
	}
	if f := w.task(stop).Failure; f == nil || f.Class != tasks.ClassStopOnUnsure {
		t.Errorf("%+v", f)
	}
}

// A call whose name could not be made durable is not made.
func TestNothingIsSentBeforeItIsNoted(t *testing.T) {
	w := newWorld(t, 1)
	broken := &noteless{Store: w.tasks}
	w.tasks = broken
	id := w.send(0, "a", "hello", func(s *tasks.Submission) { s.MaxAttempts = 20 })
	w.startWith(w.archive(noTrace), "one")
	eventually(t, "an attempt has failed", func() bool { f := w.task(id).Failure; return f != nil })
	if n := w.model.called("hello"); n != 0 {
		t.Errorf("%d calls", n)
	}
	broken.mend()
	w.finished(id, tasks.StatusCompleted)
}

// noteless is a store whose notes fail until it is mended.
type noteless struct {
	tasks.Store
	mu    sync.Mutex
	whole bool
}

func (s *noteless) mend() { s.mu.Lock(); s.whole = true; s.mu.Unlock() }

func (s *noteless) Note(ctx context.Context, items []tasks.Note) error {
	s.mu.Lock()
	whole := s.whole
	s.mu.Unlock()
	if !whole {
		return errors.New("the store is away")
	}
	return s.Store.Note(ctx, items)
}
