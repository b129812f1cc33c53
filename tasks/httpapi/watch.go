package httpapi

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// errDraining: the server is stopping, and the reader should go on elsewhere.
var errDraining = errors.New("the server is stopping")

// Kinds of events. A reader keeps to its rule: it shows the tokens as they come, drops them at a reset, and puts the reply
// in their place.
const (
	eventAlive  = "alive"  // nothing has happened: the first event of every watch, and after each Server.heartbeat of silence
	eventStatus = "status" // the status, or the attempt, has changed
	eventToken  = "token"  // some text of the running attempt
	eventReset  = "reset"  // another attempt has taken over: the tokens so far are void
	eventReply  = "reply"  // completed; the last event
	eventError  = "error"  // failed or cancelled; the last event
)

// event is one thing that happened to a task.
type event struct {
	kind    string
	attempt int    // token, reset
	index   int    // token: of the first token in text within its attempt, from 0
	text    string // token: one token or several
	// task is all of it in a reply and an error. In a status only ID, Status, Version and Attempts are set: it is told
	// without asking the store.
	task *tasks.Task
	at   cursor // after the event: where a reader that has seen it goes on
}

// watch tells see what happens to the task after from, in its order, until the task has ended, see says false or ctx is
// done (all nil), or the server drains (errDraining). An error before the first event says why there is none: a problem,
// tasks.ErrNotFound. see may take its time: tokens wait in the store meanwhile, and of the states in between only the last
// is told. The tokens of two attempts are never told without a reset between them; tokens that were lost are not told of,
// nor any after them of that attempt.
func (s *Server) watch(ctx context.Context, workspace string, id uuid.UUID, from cursor, see func(event) (more bool)) error {
	w, p := s.hub.register(workspace, id, true)
	if p != nil {
		return p
	}
	defer w.leave()
	// Only after register: what happens from here on is told.
	now, err := s.look(ctx, workspace, id)
	if err != nil {
		return err
	}
	t := teller{see: see, now: now, at: from}
	if !see(event{kind: eventAlive, at: from}) || !t.begin() {
		return nil
	}
	alive := time.NewTimer(s.heartbeat)
	defer alive.Stop()
	for {
		if t.now.Status.Terminal() {
			task, err := s.finished(ctx, workspace, id)
			if err != nil {
				return err
			}
			t.end(task)
			return nil
		}
		// One that waits for what another attempt brings, after a gap, is behind nothing.
		next := tasks.LiveCursor{TaskID: id, Version: t.at.version, Index: t.at.index}
		if t.gap {
			next.Index = math.MaxInt32
		}
		w.ask(next)
		select {
		case <-w.news:
			progress, pieces := w.take()
			if !t.advance(progress) || !t.tokens(pieces) {
				return nil
			}
		case <-alive.C:
			if !see(event{kind: eventAlive, at: t.at}) {
				return nil
			}
		case <-s.hub.draining:
			return errDraining
		case <-ctx.Done():
			return nil
		}
		alive.Reset(s.heartbeat)
	}
}

// teller turns what is seen of a task into events. Its methods say whether see wants more.
type teller struct {
	see func(event) bool
	now tasks.Progress // the latest that was seen
	at  cursor         // what was told
	gap bool           // a token of at.version was lost
}

// begin tells what has changed since the cursor that the reader came with.
func (t *teller) begin() bool {
	if t.at.version > t.now.Version || t.at.status.Terminal() {
		// No event of this task, or of one before the database was set back. Whatever the reader has is void.
		t.at = cursor{version: t.now.Version}
		if !t.say(event{kind: eventReset, attempt: t.now.Attempts}) {
			return false
		}
	}
	return t.changed()
}

// advance takes in how far the task was at a poll. What was seen before is passed over: the poll may have begun before the
// task was read.
func (t *teller) advance(p tasks.Progress) bool {
	if p.Version < t.now.Version || p.Version == t.now.Version && rank(p.Status) <= rank(t.now.Status) {
		return true
	}
	t.now = p
	return t.changed()
}

// rank orders the states that a task goes through under one assignment: it is claimed, given back, ended.
func rank(s tasks.Status) int {
	switch {
	case s.Terminal():
		return 2
	case s == tasks.StatusQueued:
		return 1
	default:
		return 0
	}
}

// changed tells of a new attempt and of a new status. The end is told by end.
func (t *teller) changed() bool {
	if t.now.Version != t.at.version {
		void := t.at.index > 0
		// The status is told anew, also to a reader that is cut off between the two events.
		t.at, t.gap = cursor{version: t.now.Version}, false
		if void && !t.say(event{kind: eventReset, attempt: t.now.Attempts}) {
			return false
		}
	}
	if t.now.Status == t.at.status || t.now.Status.Terminal() {
		return true
	}
	t.at.status = t.now.Status
	return t.say(event{kind: eventStatus, task: &tasks.Task{ID: t.now.TaskID, Status: t.now.Status, Version: t.now.Version,
		Budget: tasks.Budget{Attempts: t.now.Attempts}}})
}

// tokens tells those pieces that go on where the reader is.
func (t *teller) tokens(pieces []tasks.LivePiece) bool {
	for _, p := range pieces {
		if p.Version != t.at.version || t.gap || t.now.Status != tasks.StatusRunning {
			continue // of another attempt than the one that was told of; it is asked for again if it is newer
		}
		if p.Index != t.at.index {
			t.gap = p.Index > t.at.index
			continue
		}
		t.at.index += p.Tokens
		if !t.say(event{kind: eventToken, attempt: p.Attempt, index: p.Index, text: p.Text}) {
			return false
		}
	}
	return true
}

func (t *teller) end(task *tasks.Task) {
	kind := eventError
	if task.Status == tasks.StatusCompleted {
		kind = eventReply
	}
	t.at.status = task.Status
	t.say(event{kind: kind, task: task})
}

func (t *teller) say(e event) bool {
	e.at = t.at
	return t.see(e)
}
