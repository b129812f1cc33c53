package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/fencepost/fencepost/offsets"
)

type run = offsets.Run

func TestAcquireMergesWhatTheGroupSays(t *testing.T) {
	k := newKit(t)
	// A group that has kept its positions in Kafka: position 100, with two runs ahead of it.
	first := k.acquire("worker-1", begin(topicA, 0, 1000, run{From: 0, To: 100}, run{From: 103, To: 110}, run{From: 200, To: 300}))[0]
	if first.Epoch != 1 || !slices.Equal(first.Settled, []run{{From: 0, To: 100}, {From: 103, To: 110}, {From: 200, To: 300}}) {
		t.Fatalf("%+v", first)
	}
	if ok := k.settle(place(first.Owner, 100, 103), place(first.Owner, 400, 401)); !slices.Equal(ok, []bool{true, true}) {
		t.Fatal(ok)
	}
	k.want(topicA, 0, 1, run{From: 0, To: 110}, run{From: 200, To: 300}, run{From: 400, To: 401})
	// Back to Kafka for a while, where it got further in some places and knew less in others.
	second := k.acquire("worker-2", begin(topicA, 0, 1000, run{From: 0, To: 150}, run{From: 290, To: 320}))[0]
	want := []run{{From: 0, To: 150}, {From: 200, To: 320}, {From: 400, To: 401}}
	if second.Epoch != 2 || !slices.Equal(second.Settled, want) {
		t.Fatalf("%+v, want %v", second, want)
	}
	if s := k.want(topicA, 0, 2, want...); s.Owner != "worker-2" || s.Topic != "t" || s.UpdatedAt.IsZero() {
		t.Fatalf("%+v", s)
	}
}

func TestAcquireDropsWhatIsBeyondTheEnd(t *testing.T) {
	k := newKit(t)
	// Of a new row and of one that is there, of the items' own ends.
	given := []run{{From: 0, To: 10}, {From: 15, To: 25}} // of a group whose position, 10, is beyond the ends 0 and -1
	for epoch := int64(1); epoch <= 2; epoch++ {
		out := k.acquire("w", begin(topicA, 0, 20, given...), begin(topicA, 1, 0, given...), begin(topicA, 2, -1, given...), begin(topicA, 3, 99, given...))
		for i, want := range [][]run{{{From: 0, To: 10}, {From: 15, To: 20}}, {}, {}, given} {
			if out[i].Epoch != epoch || !slices.Equal(out[i].Settled, want) {
				t.Fatalf("item %d: %+v, want %v", i, out[i], want)
			}
			k.want(topicA, int32(i), epoch, want...)
		}
	}
	// The log was cut back to 5 and grew again: what was settled at the offsets that are new is not settled.
	k.acquire("w", begin(topicA, 3, 5))
	k.acquire("w", begin(topicA, 3, 99))
	k.want(topicA, 3, 4, run{From: 0, To: 5})
}

func TestAcquireOfARecreatedTopicBeginsAnew(t *testing.T) {
	k := newKit(t)
	old := k.acquire("w", begin(topicA, 0, 100, run{From: 0, To: 50}))[0]
	made := k.acquire("w", begin(topicB, 0, 100))[0]
	if made.Epoch != 1 || len(made.Settled) != 0 {
		t.Fatalf("the topic that was made again begins with %+v", made)
	}
	// An answer that comes back from the old topic is the old topic's.
	if ok := k.settle(place(old.Owner, 60, 61), place(made.Owner, 0, 1)); !slices.Equal(ok, []bool{true, true}) {
		t.Fatal(ok)
	}
	k.want(topicA, 0, 1, run{From: 0, To: 50}, run{From: 60, To: 61})
	k.want(topicB, 0, 1, run{From: 0, To: 1})
}

// A topic that was made again, and whose group still has the old one's position: nothing of the new log is settled.
func TestAcquireIgnoresAPositionOfAnotherLog(t *testing.T) {
	k := newKit(t)
	group := []run{{From: 0, To: 50}, {From: 60, To: 70}}
	for _, settled := range [][]run{group, {{From: 0, To: 10}}, group} {
		k.acquire("w", begin(topicA, 0, 49, settled...))
	}
	k.want(topicA, 0, 3, run{From: 0, To: 10})
	k.acquire("w", begin(topicA, 0, 50, group...))
	k.want(topicA, 0, 4, run{From: 0, To: 50})
}

func TestAcquireRefusesAPartitionNamedTwice(t *testing.T) {
	k := newKit(t)
	_, err := k.positions.Acquire(context.Background(), "w", []offsets.Begin{begin(topicA, 0, 1), begin(topicA, 1, 1), begin(topicA, 0, 1)})
	if !errors.Is(err, offsets.ErrInvalid) {
		t.Fatalf("%v, want %v", err, offsets.ErrInvalid)
	}
	// What is no run, and runs in any order, do not fail the others.
	k.acquire("w", begin(topicA, 0, math.MaxInt64, run{From: 7, To: 7}, run{From: 30, To: 31}, run{From: 9, To: 3}, run{From: -4, To: 2},
		run{From: 10, To: 20}, run{From: math.MaxInt64 - 1, To: math.MaxInt64}))
	k.want(topicA, 0, 1, run{From: 10, To: 20}, run{From: 30, To: 31}, run{From: math.MaxInt64 - 1, To: math.MaxInt64})
	if out, err := k.positions.Acquire(context.Background(), "w", nil); out != nil || err != nil {
		t.Fatal(out, err)
	}
}

func TestSettleMergesInAnyOrder(t *testing.T) {
	k := newKit(t)
	o := k.acquire("w", begin(topicA, 0, 100), begin(topicA, 1, 100))
	other := o[1].Owner
	for _, p := range [][]offsets.Place{
		{place(o[0].Owner, 5, 6), place(other, 0, 3), place(o[0].Owner, 3, 5)},
		{place(o[0].Owner, 8, 9), place(o[0].Owner, 8, 9), place(o[0].Owner, 4, 4), place(o[0].Owner, 7, 2)}, // a repeat, and what is no span
		{place(o[0].Owner, 5, 6)},
	} {
		if ok := k.settle(p...); slices.Contains(ok, false) || len(ok) != len(p) {
			t.Fatal(ok)
		}
	}
	k.want(topicA, 0, 1, run{From: 3, To: 6}, run{From: 8, To: 9})
	k.want(topicA, 1, 1, run{From: 0, To: 3})
	if ok := k.settle(); ok != nil {
		t.Fatal(ok)
	}
}

func TestI4_SettleAnswersEveryPlaceByItsOwnEpoch(t *testing.T) {
	k := newKit(t)
	old := k.acquire("w1", begin(topicA, 0, 100), begin(topicA, 1, 100))
	young := k.acquire("w2", begin(topicA, 0, 100))[0]
	ahead, foreign, nowhere := young.Owner, young.Owner, young.Owner
	ahead.Epoch++
	foreign.Group = "another"
	nowhere.Partition = 9
	ok := k.settle(place(old[0].Owner, 0, 1), place(young.Owner, 1, 2), place(old[1].Owner, 2, 3), place(ahead, 3, 4),
		place(foreign, 4, 5), place(nowhere, 5, 6), place(young.Owner, 6, 7))
	if !slices.Equal(ok, []bool{false, true, true, false, false, false, true}) {
		t.Fatal(ok)
	}
	k.want(topicA, 0, 2, run{From: 1, To: 2}, run{From: 6, To: 7})
	k.want(topicA, 1, 1, run{From: 2, To: 3})
	if states, err := k.positions.Read(context.Background(), "another"); err != nil || len(states) != 0 {
		t.Fatal(states, err)
	}
}
