package storetest

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) cap(workspace string, perDay int64) {
	k.Helper()
	if err := k.Budgets.SetBudget(k.ctx, workspace, &perDay); err != nil {
		k.Fatalf("set budget: %v", err)
	}
}

func reserving(amount int64) func(*tasks.Submission) {
	return func(s *tasks.Submission) { s.Reserve = &amount }
}

func in(workspace string) func(*tasks.Submission) {
	return func(s *tasks.Submission) { s.Workspace = workspace }
}

// wantDay wants what a capped workspace has spent and reserved today.
func (k *kit) wantDay(workspace string, spent, reserved int64) {
	k.Helper()
	list, err := k.Budgets.Budgets(k.ctx)
	if err != nil {
		k.Fatalf("budgets: %v", err)
	}
	for _, b := range list {
		if b.Workspace == workspace {
			if b.Spent != spent || b.Reserved != reserved {
				k.Fatalf("spent %d and reserved %d, want %d and %d", b.Spent, b.Reserved, spent, reserved)
			}
			return
		}
	}
	k.Fatalf("%s has no budget among %+v", workspace, list)
}

// refused wants a submission refused, and nothing of it stored.
func (k *kit) refused(why error, change ...func(*tasks.Submission)) tasks.Submission {
	k.Helper()
	s := submission(change...)
	k.wantRefused(s, k.submitAll(s)[0], why)
	return s
}

func (k *kit) wantRefused(s tasks.Submission, got tasks.Submitted, why error) {
	k.Helper()
	if !errors.Is(got.Err, why) || got.TaskID != uuid.Nil || got.Replayed {
		k.Fatalf("submit: %+v, want %v", got, why)
	}
	if _, err := k.Store.Task(k.ctx, s.Workspace, s.TaskID); !errors.Is(err, tasks.ErrNotFound) {
		k.Fatalf("the task that was refused: %v", err)
	}
}

// unheard is a settle of a call that was on the wire, and of which nothing is known.
func unheard(w tasks.Work) tasks.Settlement {
	s := retry(w, 0)
	s.Call.PicoUSD = nil
	return s
}

func costing(s tasks.Settlement, amount int64) tasks.Settlement {
	s.Call.PicoUSD = &amount
	return s
}

var moneyTests = []test{
	{"I7_a_budget_takes_a_reservation_until_the_task_has_cost_what_it_does", func(k *kit) {
		k.cap(workspace, 100)
		k.wantDay(workspace, 0, 0)
		s := k.submit(reserving(60))
		k.wantDay(workspace, 0, 60)
		k.refused(tasks.ErrBudget, reserving(41))
		other := k.submit(reserving(40))
		k.wantDay(workspace, 0, 100)
		k.refused(tasks.ErrBudget, reserving(1))
		k.submit(reserving(0))
		k.settle(complete(k.take(s), "reply"), tasks.VerdictAccepted, tasks.StatusCompleted) // costs 13
		k.wantDay(workspace, 13, 40)
		k.settle(costing(retry(k.take(other), 0), 5), tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantDay(workspace, 18, 40)
		k.settle(costing(fail(k.take(other)), 50), tasks.VerdictAccepted, tasks.StatusFailed)
		k.wantDay(workspace, 68, 0) // retries may exceed what was reserved
		k.refused(tasks.ErrBudget, reserving(33))
		k.submit(reserving(32))
		k.wantDay(workspace, 68, 32)
	}},
	{"a_refused_submission_leaves_its_key_free", func(k *kit) {
		k.cap(workspace, 10)
		s := k.refused(tasks.ErrBudget, reserving(11))
		k.wantRefused(s, k.submitAll(s)[0], tasks.ErrBudget)
		k.cap(workspace, 11)
		if out := k.submitAll(s)[0]; out.Err != nil || out.TaskID != s.TaskID || out.Replayed {
			k.Fatalf("submit: %+v", out)
		}
	}},
	{"I6_a_replay_reserves_nothing", func(k *kit) {
		k.cap(workspace, 10)
		s := k.submit(reserving(10))
		again := s
		again.TaskID, again.MessageID = newID(), newID()
		for range 2 {
			if out := k.submitAll(again)[0]; out.Err != nil || !out.Replayed || out.TaskID != s.TaskID {
				k.Fatalf("replay: %+v", out)
			}
			if out := k.submitAll(s)[0]; out.Err != nil || out.TaskID != s.TaskID {
				k.Fatalf("repeat: %+v", out)
			}
		}
		k.wantDay(workspace, 0, 10)
	}},
	{"a_lost_acknowledgement_reserves_nothing_twice", func(k *kit) {
		k.cap(workspace, 10)
		s := submission(reserving(10))
		k.LoseAck()
		_, _ = k.Store.Submit(k.ctx, []tasks.Submission{s})
		if out := k.submitAll(s)[0]; out.Err != nil || out.TaskID != s.TaskID {
			k.Fatalf("repeat: %+v", out)
		}
		k.wantDay(workspace, 0, 10)
		done := complete(k.take(s), "reply")
		k.LoseAck()
		_, _ = k.Store.Settle(k.ctx, []tasks.Settlement{done})
		k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantDay(workspace, 13, 0)
	}},
	{"a_budget_wants_a_price", func(k *kit) {
		s := k.submit() // nobody asks where there is no budget
		k.cap(workspace, math.MaxInt64)
		k.refused(tasks.ErrUnpriced)
		k.refused(tasks.ErrInvalid, reserving(-1))
		k.settle(complete(k.take(s), "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantDay(workspace, 0, 0) // a task without a reservation has no part in the account
	}},
	{"I8_budgets_are_of_workspaces", func(k *kit) {
		k.cap("a", 10)
		k.cap("c", 0)
		items := []tasks.Submission{
			submission(in("a"), reserving(6)), submission(in("b")), submission(in("a"), reserving(5)), submission(in("c"), reserving(1)),
			submission(in("a"), reserving(4)), submission(in("a"), reserving(1)), submission(in("a")), submission(in("b"), reserving(99)),
		}
		want := []error{nil, nil, tasks.ErrBudget, tasks.ErrBudget, nil, tasks.ErrBudget, tasks.ErrUnpriced, nil}
		for i, out := range k.submitAll(items...) {
			if want[i] != nil {
				k.wantRefused(items[i], out, want[i])
			} else if out.Err != nil || out.TaskID != items[i].TaskID {
				k.Fatalf("item %d: %+v", i, out)
			}
		}
		k.wantDay("a", 0, 10)
		k.wantDay("c", 0, 0)
		k.cap("a", 15) // the keys of what was refused beside others are free, too
		for i, want := range map[int]error{2: nil, 6: tasks.ErrUnpriced} {
			if out := k.submitAll(items[i])[0]; !errors.Is(out.Err, want) || want == nil && (out.Replayed || out.TaskID != items[i].TaskID) {
				k.Fatalf("item %d again: %+v, want %v", i, out, want)
			}
		}
		k.cap("a", 10)
		list, err := k.Budgets.Budgets(k.ctx)
		if err != nil || len(list) != 2 || list[0].PerDay != 10 || list[1].PerDay != 0 || list[0].UpdatedAt.IsZero() {
			k.Fatalf("budgets %+v, %v", list, err)
		}
		if d := list[0].Day; d != d.UTC().Truncate(24*time.Hour) {
			k.Fatalf("the day begins at %v", d)
		}
	}},
	{"I7_a_budget_is_kept_while_its_cap_changes", func(k *kit) {
		k.cap(workspace, 100)
		s, w := k.started(reserving(60))
		if err := k.Budgets.SetBudget(k.ctx, workspace, nil); err != nil {
			k.Fatalf("remove: %v", err)
		}
		if list, err := k.Budgets.Budgets(k.ctx); err != nil || len(list) != 0 {
			k.Fatalf("budgets %+v, %v", list, err)
		}
		k.submit() // there is no cap
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
		k.cap(workspace, 20)
		k.wantDay(workspace, 13, 0)
		k.refused(tasks.ErrBudget, reserving(8))
		k.submit(reserving(7))
		for name, amount := range map[string]int64{"": 1, "\x00": 1, workspace: -1} {
			if err := k.Budgets.SetBudget(k.ctx, name, &amount); !errors.Is(err, tasks.ErrInvalid) {
				k.Fatalf("a budget of %d for %q: %v", amount, name, err)
			}
		}
	}},
	{"I7_what_is_not_known_is_charged_as_it_was_reserved", func(k *kit) {
		k.cap(workspace, 1000)
		s := k.submit(reserving(20))
		k.settle(unheard(k.take(s)), tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantDay(workspace, 20, 20)
		nothing := unheard(k.take(s)) // and nothing on the wire costs nothing
		nothing.Call.WireRequests = 0
		k.settle(nothing, tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantDay(workspace, 20, 20)
		k.settle(release(k.take(s)), tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantDay(workspace, 20, 20)
		last := unheard(k.take(s))
		last.Outcome = tasks.OutcomeFail
		k.settle(last, tasks.VerdictAccepted, tasks.StatusFailed)
		k.wantDay(workspace, 40, 0)
	}},
	{"I7_a_worker_that_dies_is_charged_for_when_its_task_goes_on", func(k *kit) {
		k.cap(workspace, 1000)
		s, first := k.started(reserving(20))
		k.Advance(lease + time.Minute)
		k.wantDay(workspace, 0, 20)
		second := k.take(s)
		k.wantDay(workspace, 20, 20)
		k.settle(complete(second, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantDay(workspace, 33, 0)
		late := complete(first, "late") // what it did cost is known after all
		k.settle(late, tasks.VerdictTerminal, tasks.StatusCompleted)
		k.wantDay(workspace, 26, 0)
		k.settle(late, tasks.VerdictTerminal, tasks.StatusCompleted)
		k.wantDay(workspace, 26, 0)
	}},
	{"I7_a_late_answer_of_a_task_that_goes_on_is_charged_once", func(k *kit) {
		k.cap(workspace, 1000)
		s, first := k.started(reserving(20))
		k.Advance(lease + time.Minute)
		k.settle(complete(first, "late"), tasks.VerdictExpired, tasks.StatusRunning)
		k.wantDay(workspace, 13, 20)
		second := k.take(s)
		k.wantDay(workspace, 13, 20)
		k.Advance(lease + time.Minute)
		k.take(s)
		k.wantDay(workspace, 33, 20)
		nothing := complete(second, "late")
		nothing.Call.WireRequests, nothing.Call.PicoUSD = 0, nil
		k.settle(nothing, tasks.VerdictTakenOver, tasks.StatusRunning)
		k.wantDay(workspace, 13, 20)
	}},
	{"I7_a_claim_that_ends_a_task_gives_its_reservation_back", func(k *kit) {
		k.cap(workspace, 1000)
		never := k.submit(reserving(1), func(s *tasks.Submission) { s.DeadlineAfter = lease / 2 })
		s, _ := k.started(reserving(20), func(s *tasks.Submission) { s.MaxInterruptions = 0 })
		k.wantDay(workspace, 0, 21)
		k.Advance(lease + time.Minute)
		k.wantClaim(never, tasks.DecisionFinished, tasks.StatusFailed)
		k.wantDay(workspace, 0, 20)
		for range 2 {
			k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
			k.wantDay(workspace, 20, 0)
		}
	}},
	{"I7_a_cancelled_task_gives_its_reservation_back", func(k *kit) {
		k.cap(workspace, 1000)
		queued := k.submit(reserving(1))
		running, w := k.started(reserving(20))
		for _, s := range []tasks.Submission{queued, running, running} {
			if _, _, err := k.Store.Cancel(k.ctx, workspace, s.TaskID); err != nil {
				k.Fatalf("cancel: %v", err)
			}
		}
		k.wantDay(workspace, 20, 0)
		k.settle(complete(w, "late"), tasks.VerdictCancelled, tasks.StatusCancelled)
		k.wantDay(workspace, 13, 0)
	}},
	{"I7_a_reply_after_the_deadline_is_charged", func(k *kit) {
		k.cap(workspace, 1000)
		_, w := k.started(reserving(20), func(s *tasks.Submission) { s.DeadlineAfter = lease / 2 })
		k.Advance(lease/2 + time.Minute)
		k.settle(complete(w, "too late"), tasks.VerdictDeadline, tasks.StatusFailed)
		k.wantDay(workspace, 13, 0)
	}},
	{"I7_an_answer_that_was_recovered_is_charged_once", func(k *kit) {
		k.cap(workspace, 1000)
		s, first := k.started(reserving(20))
		k.settle(unheard(first), tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantDay(workspace, 20, 20)
		second := complete(k.take(s), "found")
		second.Call.Recovered, second.Call.WireRequests = first.Version, 0
		for range 2 {
			k.settle(second, tasks.VerdictAccepted, tasks.StatusCompleted)
			k.wantDay(workspace, 13, 0)
		}
		s, first = k.started(reserving(20))
		k.Advance(lease + time.Minute)
		second = complete(k.take(s), "found")
		k.wantDay(workspace, 33, 20)
		second.Call.Recovered, second.Call.WireRequests = first.Version, 0
		k.settle(second, tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantDay(workspace, 26, 0)
		k.settle(complete(first, "late"), tasks.VerdictTerminal, tasks.StatusCompleted)
		k.wantDay(workspace, 26, 0)
	}},
	{"I7_nonsense_of_usage_does_not_undo_a_budget", func(k *kit) {
		k.cap(workspace, 1000)
		a, b := k.submit(reserving(1)), k.submit(reserving(1))
		k.settle(costing(complete(k.take(a), "a"), math.MaxInt64), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.settle(costing(complete(k.take(b), "b"), math.MaxInt64), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.refused(tasks.ErrBudget, reserving(0))
		k.refused(tasks.ErrBudget, reserving(1000))
	}},
	{"I7_two_hundred_submissions_at_once_do_not_exceed_a_budget", func(k *kit) {
		const n, each, limit = 200, 79, 5_000 // $5.135 of $5, where each looks before it takes
		k.cap(workspace, limit)
		var accepted atomic.Int64
		together(n, func(i int) {
			items := []tasks.Submission{submission(reserving(each))}
			if i%10 == 0 {
				items = append(items, submission(in("free")), submission(reserving(each)))
			}
			out, err := k.Store.Submit(k.ctx, items)
			if err != nil {
				k.Errorf("submit: %v", err)
				return
			}
			for j, o := range out {
				switch {
				case o.Err == nil && items[j].Workspace == workspace:
					accepted.Add(each)
				case o.Err != nil && (!errors.Is(o.Err, tasks.ErrBudget) || items[j].Workspace != workspace):
					k.Errorf("submit: %+v", o)
				}
			}
		})
		if got := accepted.Load(); got > limit || got <= limit-each {
			k.Fatalf("accepted %d of a budget of %d", got, limit)
		}
		k.wantDay(workspace, 0, accepted.Load())
	}},
}
