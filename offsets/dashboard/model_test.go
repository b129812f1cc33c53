package dashboard

import (
	"context"
	"strings"
	"testing"
	"time"
)

func warningsOf(s *source) string {
	v := newView(newReader(s.all()).fresh(context.Background()), Config{Sources: s.all()}, false, false)
	var words []string
	for _, w := range v.Warnings {
		words = append(words, w.Word)
	}
	return strings.Join(words, ",")
}

// TestWarnings: each at its bound, and none just before.
func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*source)
		want   string
	}{
		"healthy":             {func(*source) {}, ""},
		"blocked":             {func(s *source) { s.lag.Partitions[0].Status = "BLOCKED" }, "BLOCKED"},
		"unknown":             {func(s *source) { s.lag.Partitions[0].Status = "UNKNOWN" }, "UNKNOWN"},
		"a new status":        {func(s *source) { s.lag.Partitions[0].Status = "ODD" }, ""},
		"the outbox is young": {func(s *source) { s.outbox = Outbox{Pending: 9, Oldest: outboxOld} }, ""},
		"the outbox is old":   {func(s *source) { s.outbox = Outbox{Pending: 9, Oldest: outboxOld + 1} }, "OUTBOX"},
		"the breaker is open": {func(s *source) { s.gate.Breaker = "open" }, "BREAKER"},
		"the breaker tries":   {func(s *source) { s.gate.Breaker = "half_open" }, "BREAKER"},
		"few attempts fail": {func(s *source) {
			s.work.Attempts, s.work.ByOutcome = 100, []Count{{"overloaded", 19}, {"accepted", 81}}
		}, ""},
		"many attempts fail": {func(s *source) {
			s.work.Attempts, s.work.ByOutcome = 100, []Count{{"overloaded", 20}, {"accepted", 80}}
		}, "ATTEMPTS FAIL"},
		"all of few fail": {func(s *source) { s.work.Attempts, s.work.ByOutcome = 19, []Count{{"overloaded", 19}} }, ""},
		"late ones do not": {func(s *source) {
			s.work.Attempts, s.work.ByOutcome = 50, []Count{{"not_accepted", 25}, {"running", 25}}
		}, ""},
		"a budget has room":   {func(s *source) { s.money.Budgets = []Budget{{"a", 100, 40, 39}} }, ""},
		"a budget is near":    {func(s *source) { s.money.Budgets = []Budget{{"a", 100, 40, 40}} }, "BUDGET"},
		"a budget of nothing": {func(s *source) { s.money.Budgets = []Budget{{"a", 0, 0, 0}} }, "BUDGET"},
		"everything, in order": {func(s *source) {
			s.lag.Partitions = append(s.lag.Partitions, Partition{Status: "WARN"}, Partition{Status: "STOP"})
			s.gate.Breaker = "open"
		}, "STOP,WARN,BREAKER"},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			c.change(s)
			if got := warningsOf(s); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestOrder: the worst first, and among the same the one that has waited longest; or in order of partitions.
func TestOrder(t *testing.T) {
	s := healthy()
	s.lag.Partitions = []Partition{{Partition: 0, Status: "OK"}, {Partition: 1, Status: "WARN", LagSeconds: 5, Lag: 9}, {Partition: 2, Status: "STOP", Lag: 1},
		{Partition: 3, Status: "WARN", LagSeconds: 50, Lag: 1}, {Partition: 4, Status: "OK", Lag: 3}, {Partition: 5, Status: "UNKNOWN", Lag: Unknown}}
	for name, c := range map[string]struct {
		byPartition, behind bool
		want                string
		hidden              int
	}{
		"worst":            {false, false, "523140", 0},
		"in order":         {true, false, "012345", 0},
		"worst, behind":    {false, true, "52314", 1},
		"in order, behind": {true, true, "12345", 1},
	} {
		v := newView(newReader(s.all()).fresh(context.Background()), Config{}, c.byPartition, c.behind)
		got := ""
		for _, r := range v.Shown {
			got += string(rune('0' + r.Partition.Partition))
		}
		if got != c.want || v.Hidden != c.hidden {
			t.Errorf("%s: %s with %d hidden, want %s with %d", name, got, v.Hidden, c.want, c.hidden)
		}
	}
}

// TestDraw: gaps stay gaps, the highest value of a column is drawn, and what is older than an hour is not.
func TestDraw(t *testing.T) {
	now := time.Now()
	at := func(minutes float64, lag int64) Point {
		return Point{now.Add(-time.Duration(minutes * float64(time.Minute))), lag}
	}
	l := draw([]Point{at(90, 1000), at(50.6, 4), at(50.4, 8), at(49.5, 2), at(30.5, 6), at(10.5, Unknown), at(0.5, 0)}, now, 120, 24)
	if len(l.Paths) != 3 || l.Text != "last hour: at most 8" {
		t.Fatalf("%+v", l)
	}
	if points := strings.Fields(l.Paths[0]); len(points) != 2 || !strings.HasSuffix(points[0], ",1.0") || !strings.HasSuffix(points[1], ",17.5") {
		t.Errorf("%q, want the highest at the top, then a quarter of it", l.Paths[0])
	}
	for i, y := range []string{",6.5", ",23.0"} {
		if points := strings.Fields(l.Paths[i+1]); len(points) != 2 || !strings.HasSuffix(points[0], y) || !strings.HasSuffix(points[1], y) || points[0] == points[1] {
			t.Errorf("%q, want a short line at %s", l.Paths[i+1], y)
		}
	}
	if empty := draw([]Point{at(61, 5)}, now, 120, 24); len(empty.Paths) != 0 || !strings.Contains(empty.Text, "no samples") {
		t.Errorf("%+v", empty)
	}
}

// TestTotals: a moment at which one partition was not read has no total.
func TestTotals(t *testing.T) {
	now := time.Now()
	minute := func(n int) time.Time { return now.Add(-time.Duration(n)*time.Minute - time.Second) }
	got := totals([]Partition{
		{History: []Point{{minute(3), 1}, {minute(2), 2}, {minute(1), Unknown}}},
		{History: []Point{{minute(3), 10}, {minute(1), 30}}},
	}, now)
	if len(got) != 1 || got[0].Lag != 11 {
		t.Errorf("%+v", got)
	}
	if got := totals(nil, now); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		number(0): "0", number(999): "999", number(1000): "1\u202f000", number(-1234567): "−1\u202f234\u202f567", number(Unknown): "?",
		seconds(-1): "?", seconds(0): "0 s", seconds(0.0123): "13 ms", seconds(9.99): "9.9 s", seconds(59.9): "59 s", seconds(60): "1 min", seconds(61): "1 min 1 s",
		seconds(3600): "1 h", seconds(47*3600 + 59*60): "47 h 59 min", seconds(50 * 3600): "2 d 2 h",
		dollars(0): "$0.00", dollars(1): "< $0.0001", dollars(120_000_000_000): "$0.1200", dollars(1_999_000_000_000): "$2.00", dollars(-5_000_000_000_000): "−$5.00",
		maybeDollars(nil): "unknown", maybeNumber(nil): "unknown", percent(0.999): "99 %", percent(1.2): "120 %", short("äöü", 2): "äö…", short("äöü", 3): "äöü", instant(time.Time{}): "–",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
