package outbox

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/tasks"
)

var epoch = time.Unix(1_800_000_000, 0)

func handoff(id int64, conversation string) tasks.Handoff {
	return tasks.Handoff{Shard: 3, ID: id, Workspace: "w", Conversation: conversation}
}

// reading is a hand with shard 3 and these rows in it.
func reading(rows ...tasks.Handoff) (*hand, *shard) {
	h := &hand{}
	h.own([]int16{3})
	s := h.shards[3]
	h.received([]*shard{s}, rows, 100, tasks.Horizon{}, epoch)
	return h, s
}

func ids(rows ...*row) string {
	s := ""
	for _, r := range rows {
		if r == nil {
			s += " -"
		} else {
			s += fmt.Sprint(" ", r.ID)
		}
	}
	return s
}

func TestAConversationHasOneRecordInFlight(t *testing.T) {
	h, _ := reading(handoff(1, "a"), handoff(2, "a"), handoff(3, "b"))
	first, other, none := h.next(), h.next(), h.next()
	if got := ids(first, other, none); got != " 1 3 -" {
		t.Fatalf("in flight:%s, want 1 and 3", got)
	}
	h.failed(first)
	if again := h.next(); again != first {
		t.Fatalf("after a failure:%s, want 1 again", ids(again))
	}
	h.acknowledged(first)
	if second := h.next(); ids(second) != " 2" {
		t.Fatalf("after the acknowledgement:%s, want 2", ids(second))
	}
}

func TestARefusalOfABatchIsNotThatOfItsRecords(t *testing.T) {
	h, _ := reading(handoff(1, "a"), handoff(2, "b"), handoff(3, "c"), handoff(4, "b"))
	one, two := h.next(), h.next()
	if h.refused(one, epoch) || h.refused(two, epoch) {
		t.Fatal("taken for certain while others were in flight")
	}
	alone := h.next()
	if got := ids(alone, h.next()); got != " 1 -" {
		t.Fatalf("suspects in flight:%s, want 1 alone", got)
	}
	h.acknowledged(alone)
	if alone = h.next(); ids(alone) != " 2" {
		t.Fatalf("next suspect:%s, want 2", ids(alone))
	}
	if !h.refused(alone, epoch) {
		t.Fatal("refused alone, and not certain")
	}
	if got := ids(h.next(), h.next()); got != " 3 -" {
		t.Fatalf("beside the refused one:%s, want 3, and nothing of its conversation", got)
	}
	h.unpark(epoch.Add(time.Second - 1))
	if r := h.next(); r != nil {
		t.Fatalf("tried again too soon:%s", ids(r))
	}
}

func TestARefusedRecordIsTriedAgainAfterAGrowingPause(t *testing.T) {
	h, _ := reading(handoff(1, "a"))
	h.refused(h.next(), epoch)
	now := epoch
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		r := h.next()
		h.refused(r, now)
		h.unpark(now.Add(pause - 1))
		if early := h.next(); early != nil {
			t.Fatalf("tried again before %v", pause)
		}
		now = now.Add(pause)
		h.unpark(now)
	}
	if d := parkTime(100); d != 5*time.Minute {
		t.Errorf("longest pause is %v", d)
	}
}

func TestRefusedRecordsDoNotFillTheWindow(t *testing.T) {
	h, _ := reading(handoff(1, "a"), handoff(2, "a"), handoff(3, "b"))
	h.refused(h.next(), epoch)
	h.failed(h.next())
	h.refused(h.next(), epoch)
	if n := h.size(10); n != 1 {
		t.Errorf("size %d, want 1: what waits for the refused record does not count", n)
	}
}

func TestADeletedRowIsRememberedUntilNoReadCanReturnIt(t *testing.T) {
	h, s := reading(handoff(1, "a"))
	h.acknowledged(h.next())
	h.deleted(h.take(10), 7) // read 7 began before the delete ended
	h.forget(7)
	h.received([]*shard{s}, []tasks.Handoff{handoff(1, "a")}, 100, tasks.Horizon{}, epoch)
	if r := h.next(); r != nil {
		t.Fatal("published again from a read of before the delete")
	}
	h.forget(8)
	if len(s.held) != 0 || h.size(10) != 0 {
		t.Errorf("still remembered: %v", s.held)
	}
}

func TestALostShardIsForgottenAndItsFlightEndsUnheard(t *testing.T) {
	h, _ := reading(handoff(1, "a"), handoff(2, "a"), handoff(3, "b"))
	flying := h.next()
	h.own(nil)
	if r := h.next(); r != nil {
		t.Fatalf("published of a lost shard:%s", ids(r))
	}
	h.own([]int16{3})
	if after := h.shards[3].after; after != 0 {
		t.Fatalf("a shard that came back is read from %d, want from its low end", after)
	}
	h.acknowledged(flying)
	if got := ids(h.take(10)...); got != " 1" {
		t.Errorf("to delete:%s, want what was acknowledged", got)
	}
	if r := h.next(); r != nil || h.flying != 0 {
		t.Errorf("goes on with the lost conversation:%s, %d flying", ids(r), h.flying)
	}
}

func TestReadsStartWhereNoCommitCanBeLateAnyMore(t *testing.T) {
	h, s := reading()
	from := []*shard{s}
	read := func(horizon tasks.Horizon, at time.Time, rows ...tasks.Handoff) {
		h.received(from, rows, 100, horizon, at)
	}
	read(tasks.Horizon{Running: 50, Next: 60}, epoch, handoff(10, "a"))
	if s.safe != 0 {
		t.Fatalf("safe at %d while transactions below 60 run", s.safe)
	}
	read(tasks.Horizon{Running: 59, Next: 70}, epoch, handoff(10, "a"), handoff(12, "a"))
	if s.safe != 0 {
		t.Fatalf("safe at %d while transaction 59 runs", s.safe)
	}
	// Transaction 59 commits id 5; a row that follows it in its conversation comes in the same read, and after it.
	read(tasks.Horizon{Running: 65, Next: 80}, epoch, handoff(5, "late"), handoff(10, "a"), handoff(12, "a"), handoff(13, "late"))
	if s.safe != 10 {
		t.Fatalf("safe at %d, want 10", s.safe)
	}
	if got := ids(h.next(), h.next(), h.next()); got != " 10 5 -" {
		t.Fatalf("in flight:%s, want 10 and 5", got)
	}
	read(tasks.Horizon{Running: 65, Next: 90}, epoch.Add(patience), handoff(12, "a"), handoff(13, "late"))
	if s.safe != 13 {
		t.Errorf("safe at %d, want 13: patience with a long transaction ends", s.safe)
	}
}

func TestPatienceIsShorterWhenMuchWasReadBeyond(t *testing.T) {
	h, s := reading()
	held := tasks.Horizon{Running: 50, Next: 60}
	from := []*shard{s}
	h.received(from, []tasks.Handoff{handoff(10, "a")}, 100, held, epoch)
	h.received(from, []tasks.Handoff{handoff(11, "b")}, 100, held, epoch.Add(busyPatience))
	if s.safe != 0 {
		t.Fatalf("safe at %d after %v and one row", s.safe, busyPatience)
	}
	h.received(from, []tasks.Handoff{handoff(10+busyAfterRows, "c")}, 100, held, epoch.Add(busyPatience))
	if s.safe != 10 {
		t.Errorf("safe at %d, want 10", s.safe)
	}
}

func TestAFullPageBelowWhatWasReadMovesNothing(t *testing.T) {
	h, s := reading()
	from := []*shard{s}
	h.received(from, []tasks.Handoff{handoff(10, "a"), handoff(20, "b")}, 100, tasks.Horizon{Running: 1, Next: 5}, epoch)
	// One row came late and the page ends with it: what lies between it and 20 was not looked at.
	h.received(from, []tasks.Handoff{handoff(7, "c")}, 1, tasks.Horizon{Running: 5, Next: 6}, epoch)
	if s.safe != 0 || s.after != 20 {
		t.Errorf("safe %d after %d, want 0 and 20", s.safe, s.after)
	}
}

func TestASweepFindsWhatIsBelowTheSafePoint(t *testing.T) {
	h, s := reading()
	s.after, s.safe = 20, 10
	rest, late := h.swept([]cursor{{shard: s}}, []tasks.Handoff{handoff(4, "a"), handoff(6, "b")}, 2)
	if late != 2 || len(rest) != 1 || rest[0].after != 6 {
		t.Fatalf("late %d, goes on at %v, want 2 and 6", late, rest)
	}
	rest, late = h.swept(rest, []tasks.Handoff{handoff(9, "c"), handoff(15, "d")}, 2)
	if late != 1 || len(rest) != 0 {
		t.Errorf("late %d, goes on at %v, want 1 and the end: reads come over 15", late, rest)
	}
	if _, late = h.swept([]cursor{{shard: s}}, []tasks.Handoff{handoff(4, "a")}, 2); late != 0 {
		t.Error("a row in hand was taken for a late one")
	}
}

// TestI3_FirstPublicationKeepsTheOrder draws schedules of commits, reads, acknowledgements, failures, refusals and losses
// of the shard, and looks at the order in which a conversation's records first come into flight with success.
func TestI3_FirstPublicationKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hand{}
		h.own([]int16{3})
		table := map[int64]tasks.Handoff{} // committed and not deleted
		var flying []*row
		published := map[string]int64{} // the last id of a conversation that was published for the first time
		seen := map[int64]bool{}
		id, now, reads := int64(0), epoch, 0

		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				id++
				table[id] = handoff(id, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "conversation"))
			},
			"read": func(t *rapid.T) {
				limit := rapid.IntRange(1, 4).Draw(t, "limit")
				reads++
				h.forget(reads)
				s := h.shards[3]
				limit += len(s.held)
				var rows []tasks.Handoff
				for n := s.safe + 1; n <= id && len(rows) < limit; n++ {
					if r, ok := table[n]; ok {
						rows = append(rows, r)
					}
				}
				h.received([]*shard{s}, rows, limit, tasks.Horizon{}, now)
			},
			"start": func(t *rapid.T) {
				if r := h.next(); r != nil {
					flying = append(flying, r)
				}
			},
			"land": func(t *rapid.T) {
				if len(flying) == 0 {
					t.Skip("nothing flies")
				}
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				r := flying[i]
				flying = append(flying[:i:i], flying[i+1:]...)
				switch rapid.IntRange(0, 3).Draw(t, "how") {
				case 0:
					h.failed(r)
				case 1:
					h.refused(r, now)
				default:
					if !seen[r.ID] && r.ID < published[r.Conversation] {
						t.Fatalf("%d of %s was first published after %d", r.ID, r.Conversation, published[r.Conversation])
					}
					if !seen[r.ID] {
						seen[r.ID], published[r.Conversation] = true, r.ID
					}
					h.acknowledged(r)
				}
			},
			"delete": func(t *rapid.T) {
				rows := h.take(10)
				for _, r := range rows {
					delete(table, r.ID)
				}
				h.deleted(rows, reads)
			},
			"wait": func(*rapid.T) { now = now.Add(time.Minute); h.unpark(now) },
			"lose": func(*rapid.T) { h.own(nil); h.own([]int16{3}) },
			"": func(t *rapid.T) {
				for n := range h.shards[3].after {
					r, left := table[n+1]
					if _, held := h.shards[3].held[n+1]; left && !held {
						t.Fatalf("%d is neither in hand nor deleted: %v", n+1, r)
					}
				}
				if len(flying) != h.flying {
					t.Fatalf("%d flying, counted %d", len(flying), h.flying)
				}
			},
		})
	})
}
