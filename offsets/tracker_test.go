package offsets

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestI2_TrackerAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{t: NewTracker()}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if rapid.Bool().Draw(t, "resumed") {
			p.m.resumed = genRuns(0).Draw(t, "runs")
			p.t.Resume(p.m.resumed)
		}
		register := func(t *rapid.T) {
			must(p.register(rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 7}).Draw(t, "gap"), rapid.Int32Range(-1, 9).Draw(t, "epoch")))
		}
		t.Repeat(map[string]func(*rapid.T){
			"register":  register,
			"register2": register, // twice as likely, so that windows grow beyond the first ring
			"register many": func(t *rapid.T) {
				for range rapid.IntRange(1, 2*minSlots).Draw(t, "n") {
					must(p.register(0, 3))
				}
			},
			"register again": func(t *rapid.T) { must(p.registerAgain(rapid.Int64Range(0, 9).Draw(t, "back"))) },
			"done": func(t *rapid.T) { // any record, also one that was settled long ago
				if n := len(p.m.records); n > 0 {
					must(p.done(rapid.IntRange(0, n-1).Draw(t, "i")))
				}
			},
			"done head": func(t *rapid.T) {
				if h := p.m.head(); h < len(p.m.records) {
					must(p.done(h))
				}
			},
			"done many": func(t *rapid.T) {
				if n := len(p.m.records); n > 0 {
					from := rapid.IntRange(0, n-1).Draw(t, "from")
					for i := from; i < min(n, from+minSlots); i++ {
						must(p.done(i))
					}
				}
			},
			"done of nothing": func(t *rapid.T) {
				ahead := Handle{seq: uint64(len(p.m.records)) + 1 + rapid.Uint64Range(0, 2*minSlots).Draw(t, "beyond")}
				if p.t.Done(Handle{}) || p.t.Done(ahead) || p.t.Done(Handle{seq: math.MaxUint64}) {
					t.Fatal("a handle that was never given out settled a record")
				}
			},
			"": func(*rapid.T) { must(p.check()) },
		})
	})
}

// genRuns draws runs as Ahead gives them, at or beyond position.
func genRuns(position int64) *rapid.Generator[[]Run] {
	return rapid.Custom(func(t *rapid.T) []Run {
		var runs []Run
		end := position + rapid.Int64Range(0, 3).Draw(t, "first")
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			r := Run{From: end, To: end + rapid.Int64Range(1, 40).Draw(t, "length")}
			runs = append(runs, r)
			end = r.To + rapid.Int64Range(1, 40).Draw(t, "gap")
		}
		return runs
	})
}

func TestI2_PositionIsTheFirstUnsettledRecord(t *testing.T) {
	tr := NewTracker()
	if got := tr.Position(); got != (Position{-1, -1}) {
		t.Errorf("empty: %+v", got)
	}
	a, b, c := tr.Register(10, 5), tr.Register(11, 6), tr.Register(12, 7)
	if got := tr.Position(); got != (Position{10, -1}) {
		t.Errorf("nothing settled: %+v", got)
	}
	tr.Done(c)
	tr.Done(b)
	if got := tr.Position(); got != (Position{10, -1}) {
		t.Errorf("all but the first settled: %+v", got)
	}
	tr.Done(a)
	if got := tr.Position(); got != (Position{13, 7}) {
		t.Errorf("all settled: %+v", got)
	}
}

// The epoch tells a broker which log the position was reached on. That of a later record, or of the head record itself,
// would claim more than was read.
func TestPositionEpochIsThatOfTheRecordBefore(t *testing.T) {
	tr := NewTracker()
	a := tr.Register(0, 1)
	tr.Register(1, 2)
	c := tr.Register(2, 3)
	tr.Done(a)
	tr.Done(c)
	if got := tr.Position(); got != (Position{1, 1}) {
		t.Errorf("position %+v, want offset 1 under epoch 1", got)
	}
}

// Offsets 1, 2, 4 and 6 to 8 do not exist: deleted by compaction, or transaction markers.
func TestI2_HolesHoldNothingBack(t *testing.T) {
	tr := NewTracker()
	var h []Handle
	for _, o := range []int64{0, 3, 5, 9, 10} {
		h = append(h, tr.Register(o, 0))
	}
	tr.Done(h[2])
	tr.Done(h[3])
	if got, want := tr.Ahead(nil), []Run{{4, 10}}; !slices.Equal(got, want) {
		t.Errorf("ahead %v, want %v: a record's span reaches back to the record before it", got, want)
	}
	tr.Done(h[0])
	if got := tr.Position().Offset; got != 3 {
		t.Errorf("position %d, want 3, the next record", got)
	}
	tr.Done(h[1])
	if got := tr.Position().Offset; got != 10 {
		t.Errorf("position %d, want 10", got)
	}
}

// A slot is used again and again. The handle of the record that was in it before must not settle the one that is in it now.
func TestI2_HandleOfAnEarlierRecordChangesNothing(t *testing.T) {
	tr := NewTracker()
	first := tr.Register(0, 0)
	tr.Done(first)
	for o := int64(1); o <= 4*minSlots; o++ {
		h := tr.Register(o, 0)
		if tr.Done(first) {
			t.Fatalf("handle of offset 0 settled offset %d", o)
		}
		if got := tr.Position().Offset; got != o {
			t.Fatalf("position %d, want %d", got, o)
		}
		tr.Done(h)
	}
}

func TestI2_DoneTwiceCountsOnce(t *testing.T) {
	tr := NewTracker()
	tr.Register(0, 0)
	b := tr.Register(1, 0)
	if !tr.Done(b) || tr.Done(b) {
		t.Error("Done is true the first time only")
	}
	if tr.Unsettled() != 1 || tr.SettledAhead() != 1 {
		t.Errorf("unsettled %d, ahead %d, want 1 and 1", tr.Unsettled(), tr.SettledAhead())
	}
}

func TestRegisterRefusesOffsetsThatCannotBe(t *testing.T) {
	tr := NewTracker()
	tr.Register(5, 0)
	for _, o := range []int64{5, 4, 0, -1, math.MinInt64, math.MaxInt64} {
		if tr.Register(o, 0).Valid() {
			t.Errorf("Register(%d) was accepted", o)
		}
	}
	if tr.Window() != 1 {
		t.Errorf("window %d, want 1", tr.Window())
	}
	if !tr.Register(math.MaxInt64-1, 0).Valid() {
		t.Error("the largest offset was refused")
	}
}

// What a former assignment settled is said again until it has been read again: the second crash must not forget it.
func TestResumedRunsAreReportedUntilReadAgain(t *testing.T) {
	tr := NewTracker()
	tr.Resume([]Run{{2, 4}, {6, 8}})
	if got, want := tr.Ahead(nil), []Run{{2, 4}, {6, 8}}; !slices.Equal(got, want) {
		t.Errorf("ahead %v, want %v", got, want)
	}
	h := tr.Register(1, 0)
	two := tr.Register(2, 0)
	if got, want := tr.Ahead(nil), []Run{{3, 4}, {6, 8}}; !slices.Equal(got, want) {
		t.Errorf("ahead %v, want %v: offset 2 is registered and its owner has not settled it yet", got, want)
	}
	tr.Done(two)
	if got, want := tr.Ahead(nil), []Run{{2, 4}, {6, 8}}; !slices.Equal(got, want) {
		t.Errorf("ahead %v, want %v", got, want)
	}
	tr.Done(h)
	tr.Register(9, 0)
	if got := tr.Ahead(nil); len(got) != 0 {
		t.Errorf("ahead %v, want none: everything resumed lies before the last record", got)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	const window = 1000
	tr := NewTracker()
	var handles [window]Handle
	var next int64
	for i := range handles {
		handles[i] = tr.Register(next, 0)
		next++
	}
	ahead := make([]Run, 0, window)
	i := 0
	step := func() {
		// Settling in a stride leaves holes, so that there are runs, and lets the head move on only now and then.
		j := (i*7 + 3) % window
		if tr.Done(handles[j]) {
			handles[j] = tr.Register(next, 0)
			next++
		}
		ahead = tr.Ahead(ahead[:0])
		_, _ = tr.Position(), Contains(ahead, next)
		i++
	}
	for range 5 * window { // the ring grows to what the window needs
		step()
	}
	if allocs := testing.AllocsPerRun(5*window, step); allocs != 0 {
		t.Errorf("%v allocations a record, want 0", allocs)
	}
	if next < 5*window {
		t.Errorf("only %d records went through", next)
	}
}

func TestContains(t *testing.T) {
	runs := []Run{{2, 4}, {7, 8}, {10, 20}}
	for o := int64(0); o < 25; o++ {
		want := slices.ContainsFunc(runs, func(r Run) bool { return r.From <= o && o < r.To })
		if Contains(runs, o) != want {
			t.Errorf("Contains(%d) = %v", o, !want)
		}
	}
	if Contains(nil, 0) {
		t.Error("nothing contains nothing")
	}
}
