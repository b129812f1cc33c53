package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// nearCap is the part of a budget from which on the page warns.
	nearCap = 0.8
	// outboxOld is the age from which on the page warns: a dispatcher publishes within milliseconds.
	outboxOld = 30 * time.Second
	// failing is the part of the latest attempts that failed, from which on the page warns, of at least failingOf.
	failing, failingOf = 0.2, 20
	listed             = 10 // names in a list that might be long
)

// view is what the templates show.
type view struct {
	At      time.Time
	Title   string
	Version string
	Status  string

	Lag         part[Lag]
	Shown       []row
	Hidden      int // partitions that ?show=behind leaves out
	Total       line
	ByPartition bool
	BehindOnly  bool
	Tally       []Count // partitions by status

	Work      part[Work]
	Left      int64 // unfinished tasks
	LeftBound bool  // there are at least so many
	States    []bar
	Outcomes  []bar

	Money      part[Money]
	Models     []Amount
	Workspaces []Amount
	Caps       []budgetRow
	MoreCaps   int

	Outbox part[Outbox]
	Gate   *Gate

	Warnings []warning
}

type row struct {
	Partition
	Line line
}

type bar struct {
	Count
	Width int // of 100
}

type budgetRow struct {
	Budget
	Width int // of 100
	Near  bool
}

// warning is a line of what needs somebody.
type warning struct {
	Word string // BLOCKED, BREAKER, …
	Text string
	Href string
}

type taskView struct {
	ID   string
	JSON bool
	Task *Task
	Err  string
}

func newView(r *reading, c Config, byPartition, behindOnly bool) view {
	v := view{At: r.at, Version: c.Version, ByPartition: byPartition, BehindOnly: behindOnly,
		Lag: r.lag, Work: r.work, Money: r.money, Outbox: r.outbox, Gate: r.gate, Status: "UNKNOWN"}
	if v.Lag.Here && v.Lag.Err == "" {
		v.Status = r.lag.V.Status
		v.showLag()
	}
	v.showWork()
	v.showMoney()
	v.warn()
	v.Title = v.Status + " · Fencepost"
	if len(v.Warnings) > 0 && v.Status == "OK" {
		v.Title = v.Warnings[0].Word + " · Fencepost"
	}
	return v
}

// ranks are the statuses from the worst on.
var ranks = []string{"UNKNOWN", "STOP", "STALL", "BLOCKED", "REWIND", "NO_COMMIT", "WARN", "OK"}

func rank(status string) int {
	if i := slices.Index(ranks, status); i >= 0 {
		return i
	}
	return 0
}

func (v *view) showLag() {
	l := v.Lag.V
	tally := make(map[string]int64)
	for _, p := range l.Partitions {
		tally[p.Status]++
		if v.BehindOnly && p.Status == "OK" && p.Lag == 0 {
			v.Hidden++
			continue
		}
		v.Shown = append(v.Shown, row{p, draw(p.History, l.At, 120, 24)})
	}
	for _, s := range ranks {
		if tally[s] > 0 {
			v.Tally = append(v.Tally, Count{s, tally[s]})
		}
	}
	slices.SortStableFunc(v.Shown, func(a, b row) int {
		if v.ByPartition {
			return cmp.Compare(a.Partition.Partition, b.Partition.Partition)
		}
		return cmp.Or(cmp.Compare(rank(a.Status), rank(b.Status)), cmp.Compare(b.LagSeconds, a.LagSeconds),
			cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Partition.Partition, b.Partition.Partition))
	})
	v.Total = draw(totals(l.Partitions, l.At), l.At, 600, 80)
}

func (v *view) showWork() {
	for _, c := range v.Work.V.Unfinished {
		v.Left += c.N
	}
	v.LeftBound = v.Work.V.UnfinishedBound > 0 && v.Left >= v.Work.V.UnfinishedBound
	v.States, v.Outcomes = bars(v.Work.V.ByStatus), bars(v.Work.V.ByOutcome)
}

// bars are counts with their part of the whole, the largest first; what is there is drawn, however little it is.
func bars(counts []Count) []bar {
	var sum int64
	for _, c := range counts {
		sum += c.N
	}
	out := make([]bar, len(counts))
	for i, c := range counts {
		out[i].Count = c
		if c.N > 0 {
			out[i].Width = max(1, int(c.N*100/sum))
		}
	}
	slices.SortStableFunc(out, func(a, b bar) int { return cmp.Compare(b.N, a.N) })
	return out
}

func (v *view) showMoney() {
	top := func(list []Amount) []Amount {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b Amount) int {
			return cmp.Or(cmp.Compare(b.PicoUSD, a.PicoUSD), cmp.Compare(a.Name, b.Name))
		})
		return list[:min(listed, len(list))]
	}
	v.Models, v.Workspaces = top(v.Money.V.ByModel), top(v.Money.V.ByWorkspace)
	budgets := slices.Clone(v.Money.V.Budgets)
	slices.SortFunc(budgets, func(a, b Budget) int {
		return cmp.Or(cmp.Compare(b.Used(), a.Used()), cmp.Compare(a.Workspace, b.Workspace))
	})
	for _, b := range budgets {
		used := b.Used()
		if len(v.Caps) == listed && used < nearCap {
			break
		}
		v.Caps = append(v.Caps, budgetRow{b, int(min(100, max(0, used*100))), used >= nearCap})
	}
	v.MoreCaps = len(budgets) - len(v.Caps)
}

// warn collects what needs somebody, from all sections, the worst first.
func (v *view) warn() {
	add := func(word, href, format string, args ...any) {
		v.Warnings = append(v.Warnings, warning{word, fmt.Sprintf(format, args...), href})
	}
	if v.Lag.Err != "" && !v.Lag.Elsewhere {
		add("LAG UNKNOWN", "#lag", "the lag cannot be read: %s", v.Lag.Err)
	}
	for _, c := range v.Tally {
		if c.Name != "OK" {
			what := v.firstWhy(c.Name)
			if c.N > 1 {
				what = number(c.N) + " partitions; " + what
			}
			add(c.Name, "#lag", "%s", what)
		}
	}
	if g := v.Gate; g != nil && g.Breaker != "closed" && g.Breaker != "" {
		add("BREAKER", "#work", "no calls to %s (%s): %s", g.Provider, g.Reason, short(g.Message, 160))
	}
	if o := v.Outbox; o.Here && o.Err != "" {
		add("OUTBOX UNKNOWN", "#work", "the outbox cannot be read: %s", o.Err)
	} else if o.V.Pending > 0 && o.V.Oldest > outboxOld {
		add("OUTBOX", "#work", "%s handoffs are not published, the oldest for %s", number(o.V.Pending), age(o.V.Oldest))
	}
	if v.Work.Err != "" {
		add("TASKS UNKNOWN", "#work", "the tasks cannot be read: %s", v.Work.Err)
	}
	var failed int64
	for _, c := range v.Work.V.ByOutcome {
		if c.Name != "accepted" && c.Name != "running" && c.Name != "not_accepted" {
			failed += c.N
		}
	}
	if n := v.Work.V.Attempts; n >= failingOf && float64(failed) >= failing*float64(n) {
		add("ATTEMPTS FAIL", "#work", "%s of the latest %s attempts failed", number(failed), number(n))
	}
	if v.Money.Err != "" {
		add("SPEND UNKNOWN", "#money", "the spending cannot be read: %s", v.Money.Err)
	}
	near, most := 0, ""
	for _, b := range v.Caps {
		if b.Near {
			if near++; near == 1 {
				most = fmt.Sprintf("%s has used %s of its day", b.Workspace, percent(b.Used()))
			}
		}
	}
	if near > 1 {
		most += fmt.Sprintf(", and %d more are near their caps", near-1)
	}
	if near > 0 {
		add("BUDGET", "#money", "%s", most)
	}
}

// firstWhy is the reason of the first partition that has the status.
func (v *view) firstWhy(status string) string {
	for _, r := range v.Shown {
		if r.Status == status {
			return strings.TrimSuffix(fmt.Sprintf("partition %d: %s", r.Partition.Partition, r.Why), ": ")
		}
	}
	return ""
}
