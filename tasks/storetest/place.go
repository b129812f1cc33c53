package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var topic = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// owned is a place in a partition that has just been given a new owner.
func (k *kit) owned(partition int32) tasks.Place {
	k.Helper()
	p := tasks.Place{Group: "g", TopicID: topic, Partition: partition}
	p.Epoch = k.Own(p)
	return p
}

// at is the settlement of a record at an offset.
func at(s tasks.Settlement, p tasks.Place, offset int64) tasks.Settlement {
	s.Place = p
	s.Place.From, s.Place.To = offset, offset+1
	return s
}

func (k *kit) wantKept(p tasks.Place, spans ...[2]int64) {
	k.Helper()
	if got := k.Kept(p); !slices.Equal(got, spans) {
		k.Fatalf("settled of partition %d: %v, want %v", p.Partition, got, spans)
	}
}

// settlePlaced is settle, and wants the place to be fenced or not.
func (k *kit) settlePlaced(s tasks.Settlement, verdict tasks.Verdict, status tasks.Status, fenced bool) {
	k.Helper()
	if out := k.settleAll(s)[0]; out.Verdict != verdict || out.Status != status || out.Fenced != fenced {
		k.Fatalf("settle %s: %+v, want %s, a %s task, fenced %t", s.Outcome, out, verdict, status, fenced)
	}
}

var placeTests = []test{
	{"I2_place_is_stored_when_the_settle_ends_the_record", func(k *kit) {
		p := k.owned(0)
		for offset, c := range []struct {
			do     func(w tasks.Work) tasks.Settlement
			status tasks.Status
			stored bool
		}{
			{func(w tasks.Work) tasks.Settlement { return complete(w, "reply") }, tasks.StatusCompleted, true},
			{fail, tasks.StatusFailed, true},
			{func(w tasks.Work) tasks.Settlement { return retry(w, time.Hour) }, tasks.StatusQueued, false},
			{func(w tasks.Work) tasks.Settlement { r := retry(w, time.Hour); r.Handoff = true; return r }, tasks.StatusQueued, true},
			{release, tasks.StatusQueued, false},
		} {
			_, w := k.started()
			before := k.Kept(p)
			k.settlePlaced(at(c.do(w), p, int64(10*offset)), tasks.VerdictAccepted, c.status, false)
			want := before
			if c.stored {
				want = append(slices.Clone(before), [2]int64{int64(10 * offset), int64(10*offset + 1)})
			}
			k.wantKept(p, want...)
		}
	}},
	{"I2_place_of_a_refused_settle", func(k *kit) {
		p := k.owned(0)
		// The task has ended otherwise: so has its record.
		_, w := k.started()
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.settlePlaced(at(complete(w, "another"), p, 0), tasks.VerdictTerminal, tasks.StatusCompleted, false)
		s, w := k.started()
		k.cancel(s, true, tasks.StatusCancelled)
		k.settlePlaced(at(release(w), p, 2), tasks.VerdictCancelled, tasks.StatusCancelled, false)
		_, w = k.started(func(s *tasks.Submission) { s.DeadlineAfter = lease / 2 })
		k.Advance(lease * 3 / 4)
		k.settlePlaced(at(complete(w, "late"), p, 4), tasks.VerdictDeadline, tasks.StatusFailed, false)
		_, w = k.started()
		unknown := at(complete(w, "x"), p, 6)
		unknown.TaskID = newID()
		k.settlePlaced(unknown, tasks.VerdictMissing, "", false)
		done := [][2]int64{{0, 1}, {2, 3}, {4, 5}, {6, 7}}
		k.wantKept(p, done...)
		// The task goes on with another: its record waits.
		s, w = k.started()
		k.Advance(lease + time.Minute)
		k.settlePlaced(at(complete(w, "late"), p, 8), tasks.VerdictExpired, tasks.StatusRunning, false)
		k.take(s)
		k.settlePlaced(at(complete(w, "late"), p, 8), tasks.VerdictTakenOver, tasks.StatusRunning, false)
		k.wantKept(p, done...)
	}},
	{"I2_place_of_a_settlement_that_cannot_be_stored", func(k *kit) {
		p := k.owned(0)
		broken := func(w tasks.Work, offset int64) tasks.Settlement {
			s := at(complete(w, "x"), p, offset)
			s.Candidate.ReplyID = uuid.Nil
			return s
		}
		_, going := k.started()
		_, w := k.started()
		k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
		k.settlePlaced(broken(going, 0), tasks.VerdictInvalid, tasks.StatusRunning, false)
		k.settlePlaced(broken(w, 2), tasks.VerdictInvalid, tasks.StatusFailed, false)
		unknown := broken(w, 4)
		unknown.TaskID = newID()
		k.settlePlaced(unknown, tasks.VerdictMissing, "", false)
		k.wantKept(p, [2]int64{2, 3}, [2]int64{4, 5})
		k.owned(0)
		k.settlePlaced(broken(w, 6), tasks.VerdictInvalid, tasks.StatusFailed, true)
		k.wantKept(p, [2]int64{2, 3}, [2]int64{4, 5})
	}},
	{"I4_fenced_place_leaves_the_reply_accepted", func(k *kit) {
		old := k.owned(0)
		young := k.owned(0)
		nobodys := tasks.Place{Group: "g", TopicID: newID(), Epoch: 1}
		ahead := young
		ahead.Epoch++
		for n, p := range []tasks.Place{old, nobodys, ahead} {
			s, w := k.started()
			k.settlePlaced(at(complete(w, "reply"), p, int64(n)), tasks.VerdictAccepted, tasks.StatusCompleted, true)
			k.wantReply(s, "reply")
			k.settlePlaced(at(complete(w, "another"), p, int64(n)), tasks.VerdictTerminal, tasks.StatusCompleted, true)
		}
		k.wantKept(young)
		if len(k.Kept(nobodys)) != 0 {
			k.Fatalf("settled where nothing was acquired: %v", k.Kept(nobodys))
		}
		// What does not end the record has no place to refuse.
		s, w := k.started()
		k.settlePlaced(at(retry(w, 0), old, 9), tasks.VerdictAccepted, tasks.StatusQueued, false)
		// The successor finds the task as it is, and settles its own place.
		w = k.take(s)
		k.settlePlaced(at(complete(w, "reply"), young, 9), tasks.VerdictAccepted, tasks.StatusCompleted, false)
		k.wantKept(young, [2]int64{9, 10})
	}},
	{"I4_places_of_several_partitions_and_epochs_in_a_batch", func(k *kit) {
		old := []tasks.Place{k.owned(0), k.owned(1)}
		young := k.owned(0)
		other := tasks.Place{Group: "another", TopicID: topic, Partition: 1}
		other.Epoch = k.Own(other)
		var items []tasks.Settlement
		for n, p := range []tasks.Place{old[0], young, old[1], {}, young, other, old[1], young} {
			_, w := k.started()
			item := complete(w, "reply")
			if !p.Zero() {
				item = at(item, p, int64(n))
			}
			items = append(items, item)
		}
		items[7].Outcome = tasks.OutcomeRetry
		for n, out := range k.settleAll(items...) {
			if out.Verdict != tasks.VerdictAccepted || out.Fenced != (n == 0) {
				k.Fatalf("item %d: %+v", n, out)
			}
		}
		k.wantKept(young, [2]int64{1, 2}, [2]int64{4, 5})
		k.wantKept(old[1], [2]int64{2, 3}, [2]int64{6, 7})
		k.wantKept(other, [2]int64{5, 6})
	}},
	{"I2_places_of_a_batch_that_waits_for_a_row", func(k *kit) {
		p := k.owned(0)
		s, held := k.started()
		_, free := k.started()
		_, ended := k.started()
		k.settle(fail(ended), tasks.VerdictAccepted, tasks.StatusFailed)
		unknown := at(complete(held, "x"), p, 6)
		unknown.TaskID = newID()
		letGo := k.Hold(s.TaskID)
		var out []tasks.Settled
		together(2, func(i int) {
			if i == 0 {
				letGo(0)
			} else {
				out = k.settleAll(at(complete(held, "reply"), p, 0), at(complete(free, "reply"), p, 2), at(complete(ended, "x"), p, 4), unknown)
			}
		})
		for n, want := range []tasks.Verdict{tasks.VerdictAccepted, tasks.VerdictAccepted, tasks.VerdictTerminal, tasks.VerdictMissing} {
			if out[n].Verdict != want || out[n].Fenced {
				k.Fatalf("item %d: %+v, want %s", n, out[n], want)
			}
		}
		k.wantKept(p, [2]int64{0, 1}, [2]int64{2, 3}, [2]int64{4, 5}, [2]int64{6, 7})
	}},
	{"spans_merge", func(k *kit) {
		p := k.owned(0)
		for _, span := range [][2]int64{{10, 12}, {5, 7}, {20, 21}, {7, 10}, {21, 21}, {30, 29}, {0, 5}} {
			_, w := k.started()
			done := at(complete(w, "reply"), p, 0)
			done.Place.From, done.Place.To = span[0], span[1]
			k.settlePlaced(done, tasks.VerdictAccepted, tasks.StatusCompleted, false)
		}
		k.wantKept(p, [2]int64{0, 12}, [2]int64{20, 21})
	}},
	{"I1_one_task_twice_in_a_batch_with_two_places", func(k *kit) {
		p := k.owned(0)
		s, w := k.started()
		for n, out := range k.settleAll(at(complete(w, "reply"), p, 0), at(complete(w, "another"), p, 5)) {
			if want := [...]tasks.Verdict{tasks.VerdictAccepted, tasks.VerdictTerminal}[n]; out.Verdict != want || out.Fenced {
				k.Fatalf("item %d: %+v, want %s", n, out, want)
			}
		}
		k.wantReply(s, "reply")
		k.wantKept(p, [2]int64{0, 1}, [2]int64{5, 6})
	}},
	{"I2_a_place_whose_acknowledgement_was_lost", func(k *kit) {
		p := k.owned(0)
		s, w := k.started()
		_, other := k.started()
		later := retry(other, time.Hour)
		later.Handoff = true
		items := []tasks.Settlement{at(complete(w, "reply"), p, 3), at(later, p, 4)}
		k.lost(func() error { _, err := k.Store.Settle(k.ctx, items); return err })
		k.wantKept(p, [2]int64{3, 5})
		for n, out := range k.settleAll(items...) {
			if out.Verdict != tasks.VerdictAccepted || out.Fenced {
				k.Fatalf("item %d again: %+v", n, out)
			}
		}
		k.wantReply(s, "reply")
		k.wantKept(p, [2]int64{3, 5})
		// A repeat is judged by its epoch too: the record is another's by now.
		k.owned(0)
		for n, out := range k.settleAll(items...) {
			if out.Verdict != tasks.VerdictAccepted || !out.Fenced {
				k.Fatalf("item %d after a new owner: %+v", n, out)
			}
		}
	}},
	{"crossing_places_do_not_deadlock", func(k *kit) {
		const callers, rounds, each = 4, 6, 12
		ctx, stop := context.WithTimeoutCause(k.ctx, 2*time.Minute, context.DeadlineExceeded)
		defer stop()
		places := make([]tasks.Place, each)
		for n := range places {
			places[n] = k.owned(int32(n))
		}
		batches := make([][]tasks.Settlement, callers*rounds)
		for b := range batches {
			items := make([]tasks.Submission, each)
			for n := range items {
				items[n] = submission()
			}
			k.submitAll(items...)
			for n, c := range k.claimAll(claimer(), refs(items)...) {
				batches[b] = append(batches[b], at(complete(*c.Work, "reply"), places[n], int64(2*b)))
			}
			if b%2 == 1 {
				slices.Reverse(batches[b])
			}
		}
		together(callers, func(i int) {
			for round := range rounds {
				out, err := k.Store.Settle(ctx, batches[i*rounds+round])
				if err != nil {
					k.Errorf("settle: %v", err)
					return
				}
				for _, o := range out {
					if o.Verdict != tasks.VerdictAccepted || o.Fenced {
						k.Errorf("settle: %+v", o)
					}
				}
			}
		})
		var want [][2]int64
		for b := range batches {
			want = append(want, [2]int64{int64(2 * b), int64(2*b + 1)})
		}
		for _, p := range places {
			k.wantKept(p, want...) // nobody wrote over what another had stored
		}
	}},
}
