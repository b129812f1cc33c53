package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Harness is a fresh, empty store and the handles by which the suite reaches what a caller of tasks.Store cannot.
type Harness struct {
	Store tasks.Store
	// Outbox is the dispatcher's side of the same store.
	Outbox Outbox
	// Live is the texts of running attempts in the same store.
	Live tasks.LiveTexts
	// Budgets are the caps in the same store.
	Budgets tasks.Budgets
	// Rearmer is the operator's side of the same store.
	Rearmer tasks.Rearmer

	// Advance makes everything stored d older, as if d had passed. Memory moves its clock. Postgres moves its stored
	// instants back, rather than sleep, so that the suite's leases can be long and never run out on a slow machine:
	//
	//	update reply_tasks set accepted_at = accepted_at - $1::interval, available_at = available_at - $1::interval,
	//	    deadline = deadline - $1::interval, finished_at = finished_at - $1::interval, lease_until = lease_until - $1::interval
	//
	// and likewise submissions (created_at, expires_at), task_requests (key_expires_at), api_keys (last_used_at), delayed_handoffs (due_at) and attempts (started_at, ended_at). Waiting on a lock, where real time has
	// to pass, is Hold's.
	Advance func(d time.Duration)

	// Hold locks the task's row from outside, as an operator's transaction would (Postgres: select for update on another
	// connection; memory: its lock). release waits until a call of the store is blocked on it, lets d pass by the store's
	// clock (Postgres: sleeps), and lets go. It is called exactly once.
	Hold func(task uuid.UUID) (release func(d time.Duration))

	// LoseAck makes the next operation of the store happen while its caller is told that it failed, or has to find out by
	// itself: the acknowledgement of the commit is lost.
	LoseAck func()

	// Handoffs are the outbox's rows in the order of their ids.
	Handoffs func() []tasks.Handoff
	// Delayed are the delayed handoffs: in how long each is due, by task.
	Delayed func() map[uuid.UUID]time.Duration

	// Own gives the partition of a place, of which nothing else counts, a new owner, as its assignment to a worker does, and
	// returns its epoch. Kept is what is stored as settled of the partition: spans, ascending and apart from each other.
	Own  func(tasks.Place) (epoch int64)
	Kept func(tasks.Place) [][2]int64

	// Replays is how often the key of the submission has brought back its task.
	Replays func(tasks.Submission) int64

	// Runs is how many runs of random steps the state machine makes, unless -rapid.checks says. When 0, it makes 20 on one
	// harness; else harnesses are taken to be cheap, and each run has its own.
	Runs int
}

// test is one subtest. Its name starts with the invariant that it shows, where it shows one.
type test struct {
	name string
	run  func(k *kit)
}

// Run runs the suite. newHarness is called once for each subtest and cleans up by t.Cleanup; the subtests of one Run are
// not parallel. The state machine obeys rapid's flags.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, tests := range [][]test{
		submitTests, poisonTests, textTests, claimTests, holdTests, lostTests, noteTests, historyTests, budgetTests,
		renewTests, settleTests, fenceTests, raceTests, cancelTests, ledgerTests, regainTests, outboxTests,
		recoverTests, readTests, bindingTests, backlogTests, ackTests, workspaceTests, placeTests, liveTests, moneyTests,
		chatTests, originalTests, progressTests, replayTests, keyTests, sweepTests, spendTests, rearmTests,
	} {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) { test.run(&kit{tb: t, Harness: newHarness(t), ctx: t.Context()}) })
		}
	}
	t.Run("machine", func(t *testing.T) { runMachine(t, newHarness) })
}
