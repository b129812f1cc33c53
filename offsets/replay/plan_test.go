package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

func item(partition int32, offset int64, n int) Item {
	return Item{Ref: ref(n), Readable: true, Partition: partition, Offset: offset}
}

func TestAPlanCountsEachTaskOnceAndEveryUnreadableRecord(t *testing.T) {
	s := newStore()
	for n, status := range []string{"completed", "failed", "cancelled", "queued", "running", "failed"} {
		s.status[ref(n)] = status
	}
	s.priced[ref(0)], s.priced[ref(1)] = 30, 10
	var source []Item
	for round := range 3 {
		for n := range 7 { // 6 is not there
			source = append(source, item(int32(round%2), int64(10*round+n), n))
		}
	}
	source = append(source, Item{Partition: 1, Offset: 99}, Item{Partition: 1, Offset: 100})
	p := Plan{Kind: "range", Group: "g", Topic: "t", Partitions: []Span{{Partition: 0, From: 0, To: 30}, {Partition: 1, From: 0, To: -1}}}
	if err := p.Add(context.Background(), s, asSource(source)); err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"range","group":"g","topic":"t","partitions":[{"partition":0,"from":0,"to":30,"records":14},{"partition":1,"from":0,"to":null,"records":9}],` +
		`"tasks":{"completed":1,"failed":2,"cancelled":1,"unfinished":2,"missing":1,"unreadable":2},"will":{"rearm":2,"skip":5}}`
	if got := jsonOf(t, p); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if p.Estimate != (Estimate{PicoUSD: 40}) {
		t.Errorf("%+v, want two answers at 20", p.Estimate)
	}
	var back Plan
	if err := json.Unmarshal([]byte(want), &back); err != nil || back.Partitions[1].To != -1 || back.Partitions[0].To != 30 {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestI7_AnUnknownCostIsNotNothing(t *testing.T) {
	s := newStore()
	s.status[ref(1)] = "failed"
	var p Plan
	if err := p.Add(context.Background(), s, asSource([]Item{item(0, 0, 1)})); err != nil {
		t.Fatal(err)
	}
	if p.Estimate != (Estimate{Unknown: 1}) {
		t.Errorf("%+v", p.Estimate)
	}
	s.priced[ref(1)] = 1 << 62
	for n := range 5 {
		s.status[ref(n)] = "failed"
	}
	p = Plan{}
	if err := p.Add(context.Background(), s, asSource([]Item{item(0, 0, 0), item(0, 0, 1), item(0, 0, 2), item(0, 0, 3)})); err != nil {
		t.Fatal(err)
	}
	if p.Estimate.PicoUSD != 9_000_000_000_000_000_000 {
		t.Errorf("%+v, want the greatest amount there is", p.Estimate)
	}
}

func TestPlansAskInBatches(t *testing.T) {
	s := newStore()
	var source []Item
	for n := range lookBatch + 1 {
		source = append(source, item(0, int64(n), n), item(0, int64(n), n))
	}
	var p Plan
	if err := p.Add(context.Background(), s, asSource(source)); err != nil || s.looks != 2 || p.Tasks.Missing != lookBatch+1 {
		t.Errorf("%d looks, %+v, %v", s.looks, p.Tasks, err)
	}
}

// failing are n failed tasks, one a record, every third of them twice, and a completed one in between.
func failing(s *store, n int) (source []Item) {
	for i := range n {
		s.status[ref(i)] = "failed"
		s.status[ref(10_000+i)] = "completed"
		source = append(source, item(0, int64(len(source)), i), item(0, int64(len(source)+1), 10_000+i))
		if i%3 == 0 {
			source = append(source, item(0, int64(len(source)), i/2))
		}
	}
	return source
}

// from is the part of a source that a cursor leaves.
func from(source []Item, c Cursor) []Item {
	for i, item := range source {
		if item.Offset >= c.Partitions[0] {
			return source[i:]
		}
	}
	return nil
}

func TestExecuteInterruptedAnywhereGoesOnFromItsCursorAndReArmsEachTaskOnce(t *testing.T) {
	const n = 1200
	for stop := range 4 {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			s := newStore()
			source := failing(s, n)
			broken := errors.New("killed")
			s.fail = func(step int) error {
				if step == stop {
					return broken
				}
				return nil
			}
			_, all, err := Execute(context.Background(), s, asSource(source), Cursor{}, Pace{}, nil)
			if !errors.Is(err, broken) || all {
				t.Fatalf("all %t, %v", all, err)
			}
			s.fail = nil
			steps := len(s.steps)
			done, all, err := Execute(context.Background(), s, asSource(from(source, s.cursor)), s.cursor, Pace{}, nil)
			if err != nil || !all {
				t.Fatalf("all %t, %v", all, err)
			}
			if steps > 0 && done.Records == int64(len(source)) {
				t.Error("it began anew")
			}
			for i := range n {
				if s.armed[ref(i)] != 1 {
					t.Fatalf("task %d was re-armed %d times", i, s.armed[ref(i)])
				}
			}
			if len(s.armed) != n || s.cursor.Partitions[0] != source[len(source)-1].Offset+1 {
				t.Errorf("%d tasks were re-armed, cursor %+v", len(s.armed), s.cursor)
			}
		})
	}
}

func TestMaxEndsExactlyThereAndTheNextCallDoesTheRest(t *testing.T) {
	s := newStore()
	source := failing(s, 20)
	for round, want := range []struct {
		armed int
		all   bool
	}{{7, false}, {14, false}, {20, true}} {
		_, all, err := Execute(context.Background(), s, asSource(from(source, s.cursor)), s.cursor, Pace{Max: 7}, nil)
		if err != nil || all != want.all || len(s.armed) != want.armed {
			t.Fatalf("round %d: all %t, %d armed, %v; want %+v", round, all, len(s.armed), err, want)
		}
	}
	s = newStore()
	source = failing(s, 7)
	if _, all, err := Execute(context.Background(), s, asSource(source), Cursor{}, Pace{Max: 7}, nil); err != nil || !all {
		t.Errorf("as many as there are: all %t, %v", all, err)
	}
}

func TestARateSpacesStepsAndADoneContextEndsTheWait(t *testing.T) {
	s := newStore()
	source := failing(s, 30)
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	_, all, err := Execute(ctx, s, asSource(source), Cursor{}, Pace{PerSecond: 10}, func(p Progress) {
		if p.Rearmed > 5 {
			cancel(stop)
		}
	})
	if !errors.Is(err, stop) || all || len(s.armed) > 15 {
		t.Errorf("all %t, %d armed, %v", all, len(s.armed), err)
	}
	for _, step := range s.steps {
		if len(step.Refs) > 10 {
			t.Errorf("a step of %d tasks at 10 a second", len(step.Refs))
		}
	}
}

func TestCountsReachTheAccount(t *testing.T) {
	s := newStore()
	source := append(failing(s, 10), Item{Partition: 0, Offset: 999})
	var told Progress
	done, all, err := Execute(context.Background(), s, asSource(source), Cursor{}, Pace{}, func(p Progress) { told = p })
	skipped := int64(0)
	for _, step := range s.steps {
		skipped += step.Skipped
	}
	if err != nil || !all || done.Rearmed != 10 || done.Skipped != 10 || skipped != 10 || done.Records != int64(len(source)) || told != done {
		t.Errorf("%+v, told %+v, stored %d skipped, all %t, %v", done, told, skipped, all, err)
	}
	// Nothing to re-arm is an account, too: the cursor comes to the end.
	s.cursor = Cursor{}
	if _, all, err := Execute(context.Background(), s, asSource(source), Cursor{}, Pace{}, nil); err != nil || !all || s.cursor.Partitions[0] != 1000 {
		t.Errorf("cursor %+v, %t, %v", s.cursor, all, err)
	}
}

func TestAListHasItsCursor(t *testing.T) {
	s := newStore()
	s.status[ref(1)], s.status[ref(2)] = "failed", "failed"
	_, all, err := Execute(context.Background(), s, List([]Ref{ref(1), ref(2)}), Cursor{}, Pace{}, nil)
	if err != nil || !all || jsonOf(t, s.cursor) != `{"after":"`+ref(2).Task.String()+`"}` {
		t.Errorf("%s, %t, %v", jsonOf(t, s.cursor), all, err)
	}
}

func TestTargets(t *testing.T) {
	b := Bounds{Start: 10, End: 20}
	for _, c := range []struct {
		name        string
		target      Target
		position    int64
		want, clamp int64
		err         error
	}{
		{"start", Start(), -1, 10, 10, nil},
		{"end", End(), -1, 20, 20, nil},
		{"offset", At(15), -1, 15, 15, nil},
		{"the end is no record and a place", At(20), -1, 20, 20, nil},
		{"before the log", At(9), -1, 0, 10, ErrRange},
		{"beyond the log", At(21), -1, 0, 20, ErrRange},
		{"time", Since(time.Unix(5, 0)), -1, 17, 17, nil},
		{"back", Shift(-3), 15, 12, 12, nil},
		{"back too far", Shift(-6), 15, 0, 10, ErrRange},
		{"forwards", Shift(5), 15, 20, 20, nil},
	} {
		got, err := c.target.resolve(0, b, 17, c.position, false)
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
		if got, err := c.target.resolve(0, b, 17, c.position, true); err != nil || got != c.clamp {
			t.Errorf("%s clamped: %d, %v", c.name, got, err)
		}
	}
	if _, err := Shift(0).resolve(0, b, 0, -1, true); !errors.Is(err, ErrNoPosition) {
		t.Errorf("by a position that is not there: %v", err)
	}
}
