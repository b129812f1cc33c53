package lag

import (
	"testing"
	"time"
)

// look is one sample, seconds after the first, of a partition with an owner whose end is 100.
type look struct {
	second    int
	committed Offset
	ahead     Offset
	end       Offset
	owner     owner
}

// TestJudge: each row is a window, oldest first. The head's age is that at the last look.
func TestJudge(t *testing.T) {
	const there, none, rebalances = ownerThere, ownerNone, ownerUnknown
	young, old, older := Seconds(3), Seconds(90), Seconds(600)
	running := func(p *Partition) { p.Head = &Head{Offset: p.Position, Task: "t", TaskStatus: "running"} }
	for name, c := range map[string]struct {
		looks []look
		age   Seconds
		with  func(*Partition)
		want  Status
	}{
		"nothing to do":                         {[]look{{0, 100, 0, 100, none}}, 0, nil, OK},
		"nothing to do, and nothing committed":  {[]look{{0, None, 0, 0, none}}, 0, nil, OK},
		"nothing committed":                     {[]look{{0, None, 0, 100, there}, {1, None, 0, 100, there}}, old, nil, NoCommit},
		"it works":                              {[]look{{0, 10, 0, 100, there}, {60, 50, 0, 100, there}}, old, nil, OK},
		"one look at a young record":            {[]look{{0, 10, 0, 100, there}}, young, nil, OK},
		"one look at an old record":             {[]look{{0, 10, 0, 100, there}}, old, nil, Unknown},
		"no age":                                {[]look{{0, 10, 0, 100, there}}, NoSeconds, nil, Unknown},
		"no owner":                              {[]look{{0, 10, 0, 100, none}, {1, 10, 0, 100, none}}, young, nil, Stop},
		"no owner, one look":                    {[]look{{0, 10, 0, 100, none}}, young, nil, Stop},
		"no owner, and it moves all the same":   {[]look{{0, 10, 0, 100, none}, {1, 11, 0, 100, none}}, young, nil, OK},
		"it had an owner a moment ago":          {[]look{{0, 10, 0, 100, there}, {1, 10, 0, 100, none}}, young, nil, OK},
		"a rebalance":                           {[]look{{0, 10, 0, 100, none}, {1, 10, 0, 100, rebalances}}, young, nil, OK},
		"still, for a second":                   {[]look{{0, 10, 0, 100, there}, {1, 10, 0, 100, there}}, young, nil, OK},
		"still, for a second, and old":          {[]look{{0, 10, 0, 100, there}, {1, 10, 0, 100, there}}, old, nil, Stall},
		"still, for a second, and it runs":      {[]look{{0, 10, 0, 100, there}, {1, 10, 0, 100, there}}, old, running, OK},
		"still, and it runs for too long":       {[]look{{0, 10, 0, 100, there}, {1, 10, 0, 100, there}}, older, running, Stall},
		"still, for a minute":                   {[]look{{0, 10, 0, 100, there}, {30, 10, 0, 100, there}, {61, 10, 0, 100, there}}, older, nil, Stall},
		"still, and it moved half a minute ago": {[]look{{0, 9, 0, 100, there}, {30, 10, 0, 100, there}, {61, 10, 0, 100, there}}, older, nil, OK},
		"others are settled meanwhile":          {[]look{{0, 10, 5, 100, there}, {61, 10, 9, 100, there}}, old, nil, OK},
		"it falls behind":                       {[]look{{0, 10, 0, 100, there}, {30, 20, 0, 120, there}, {61, 30, 0, 140, there}}, old, nil, Warn},
		"it falls behind, for a second":         {[]look{{0, 10, 0, 100, there}, {1, 11, 0, 102, there}}, young, nil, OK},
		"it falls behind, for a second, old":    {[]look{{0, 10, 0, 100, there}, {1, 11, 0, 102, there}}, old, nil, Warn},
		"it caught up in between":               {[]look{{0, 10, 0, 100, there}, {30, 100, 0, 100, there}, {61, 110, 0, 140, there}}, old, nil, OK},
		"it fell in between":                    {[]look{{0, 10, 0, 100, there}, {30, 90, 0, 110, there}, {61, 91, 0, 140, there}}, young, nil, OK},
		"it went back":                          {[]look{{0, 50, 0, 100, there}, {30, 10, 0, 100, there}, {61, 40, 0, 100, there}}, young, nil, Rewind},
		"it went back and has regained":         {[]look{{0, 50, 0, 100, there}, {30, 10, 0, 100, there}, {61, 50, 0, 100, there}}, young, nil, OK},
		"another log":                           {[]look{{0, 500, 0, 100, there}}, young, nil, Rewind},
		"blocked for long":                      {[]look{{0, 10, 5, 100, there}, {60, 10, 7, 100, there}, {121, 10, 7, 100, there}}, older, nil, Blocked},
		"blocked, and it runs":                  {[]look{{0, 10, 5, 100, there}, {60, 10, 7, 100, there}, {121, 10, 7, 100, there}}, older, running, Blocked},
		"not for so long":                       {[]look{{0, 9, 5, 100, there}, {60, 10, 7, 100, there}, {121, 10, 8, 100, there}}, older, nil, OK},
		"blocked, seen for a second":            {[]look{{0, 10, 5, 100, there}, {1, 10, 6, 100, there}}, older, nil, Blocked},
		"a young head, seen for a second":       {[]look{{0, 10, 5, 100, there}, {1, 10, 6, 100, there}}, old, nil, OK},
		"still, with some settled ahead":        {[]look{{0, 10, 5, 100, there}, {1, 10, 5, 100, there}}, older, nil, Stall},
		"all but the head":                      {[]look{{0, 10, 89, 100, there}, {1, 10, 89, 100, there}}, older, running, Blocked},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
			var w []Sample
			var p Partition
			for _, l := range c.looks {
				p = unread(0)
				p.Committed, p.SettledAhead, p.End, p.Position = l.committed, l.ahead, l.end, max(0, min(l.committed, l.end))
				if l.committed > l.end {
					p.Position = 0
				}
				p.Lag, p.LagSeconds = l.end-p.Position, c.age
				if c.with != nil {
					c.with(&p)
				}
				w = append(w, Sample{
					At: begin.Add(time.Duration(l.second) * time.Second), Committed: p.Committed, Position: p.Position, End: p.End, Lag: p.Lag,
					SettledAhead: p.SettledAhead, LagSeconds: p.LagSeconds, owner: l.owner,
				})
			}
			judge(&p, w, Rules{}.withDefaults())
			if p.Status != c.want {
				t.Errorf("%s (%s), want %s", p.Status, p.Why, c.want)
			}
			if (p.Status == OK) != (p.Why == "") {
				t.Errorf("%s because of %q", p.Status, p.Why)
			}
		})
	}
}

func TestAllowedLagIsOK(t *testing.T) {
	p := unread(0)
	p.Committed, p.Position, p.End, p.Lag, p.LagSeconds = 90, 90, 100, 10, 900
	judge(&p, []Sample{{Lag: 10, owner: ownerNone}}, Rules{Allowed: 10}.withDefaults())
	if p.Status != OK {
		t.Errorf("%s", p.Status)
	}
	judge(&p, []Sample{{Lag: 10, owner: ownerNone}}, Rules{Allowed: 9}.withDefaults())
	if p.Status != Stop {
		t.Errorf("%s", p.Status)
	}
}

func TestPace(t *testing.T) {
	at := func(second int, position Offset) Sample {
		return Sample{At: time.Unix(int64(second), 0), Position: position}
	}
	for name, c := range map[string]struct {
		lag       Offset
		w         []Sample
		rate, eta Seconds
	}{
		"moves":       {40, []Sample{at(0, 10), at(10, 30)}, 2, 20},
		"stands":      {40, []Sample{at(0, 10), at(10, 10)}, 0, NoSeconds},
		"is there":    {0, []Sample{at(0, 10), at(10, 10)}, 0, 0},
		"one look":    {40, []Sample{at(0, 10)}, NoSeconds, NoSeconds},
		"went back":   {40, []Sample{at(0, 10), at(10, 5)}, NoSeconds, NoSeconds},
		"was unknown": {40, []Sample{at(0, None), at(10, 5)}, NoSeconds, NoSeconds},
	} {
		p := Partition{Lag: c.lag}
		if rate, eta := pace(&p, c.w); rate != c.rate || eta != c.eta {
			t.Errorf("%s: %v a second, %v s left, want %v, %v", name, rate, eta, c.rate, c.eta)
		}
	}
}

func TestWorseIsTheOrderOfStatuses(t *testing.T) {
	for i, a := range Statuses {
		for j, b := range Statuses {
			if got := worse(a, b); got != Statuses[max(i, j)] {
				t.Errorf("of %s and %s, %s is worse", a, b, got)
			}
		}
	}
}
