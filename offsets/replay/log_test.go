package replay

import (
	"errors"
	"testing"
	"time"
)

func TestARangeIsReadExactlyFromTheCursorOn(t *testing.T) {
	w := newWorld(t, 2)
	for n := range 10 {
		w.produce(0, int64(1000+n), pointer(ref(n)))
	}
	w.produce(1, 1000, "what is this", pointer(ref(50)), `{"v":2,"task":"`+ref(1).Task.String()+`","workspace":"w"}`)
	spans, err := w.log.Spans(t.Context(), At(1), At(3), []int32{1, 0}, w.bounds(), false)
	if err != nil || jsonOf(t, spans) != `[{"partition":0,"from":1,"to":3,"records":0},{"partition":1,"from":1,"to":3,"records":0}]` {
		t.Fatalf("%s, %v", jsonOf(t, spans), err)
	}
	got := items(t, w.log.Read(t.Context(), spans, Cursor{}))
	want := []Item{item(0, 1, 1), item(0, 2, 2), item(1, 1, 50), {Partition: 1, Offset: 2}}
	if len(got) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	got = items(t, w.log.Read(t.Context(), spans, Cursor{Partitions: map[int32]int64{0: 3, 1: 2}}))
	if len(got) != 1 || got[0].Offset != 2 || got[0].Partition != 1 {
		t.Errorf("behind the cursor: %+v", got)
	}
}

func TestARangeByTimeEndsBeforeItsEnd(t *testing.T) {
	w := newWorld(t, 1)
	for n := range 10 {
		w.produce(0, int64(1000+10*n), pointer(ref(n)))
	}
	spans, err := w.log.Spans(t.Context(), Since(time.Unix(1015, 0)), Since(time.Unix(1040, 0)), []int32{0}, w.bounds(), false)
	if err != nil || spans[0].From != 2 || spans[0].To != 4 {
		t.Fatalf("%+v, %v; want [2, 4)", spans, err)
	}
	spans, err = w.log.Spans(t.Context(), Since(time.Unix(5000, 0)), End(), []int32{0}, w.bounds(), false)
	if err != nil || spans[0].From != 10 || spans[0].To != 10 {
		t.Fatalf("nothing is as new: %+v, %v", spans, err)
	}
}

func TestWhatIsOutOfRangeIsAnError(t *testing.T) {
	w := newWorld(t, 1)
	w.produce(0, 1000, "a", "b", "c")
	for name, r := range map[string][2]Target{
		"end": {At(0), At(4)}, "start": {At(4), End()}, "order": {At(2), At(1)},
	} {
		if _, err := w.log.Spans(t.Context(), r[0], r[1], []int32{0}, w.bounds(), false); !errors.Is(err, ErrRange) {
			t.Errorf("%s: %v", name, err)
		}
		if spans, err := w.log.Spans(t.Context(), r[0], r[1], []int32{0}, w.bounds(), true); err != nil || spans[0].To < spans[0].From || spans[0].To > 3 {
			t.Errorf("%s clamped: %+v, %v", name, spans, err)
		}
	}
	if _, err := w.log.Spans(t.Context(), Start(), End(), []int32{1}, w.bounds(), false); !errors.Is(err, ErrPartition) {
		t.Errorf("no such partition: %v", err)
	}
}

// TestARecordThatIsGoneIsAnError: a range whose records retention takes while it is read is not silently shorter.
func TestARecordThatIsGoneIsAnError(t *testing.T) {
	w := newWorld(t, 1)
	w.produce(0, 1000, "a", "b", "c")
	for _, err := range w.log.Read(t.Context(), []Span{{From: 7, To: 9}}, Cursor{}) {
		if err == nil {
			t.Fatal("a record that is not there")
		}
		return
	}
	t.Fatal("no error")
}
