package usage

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Kind says what differs.
type Kind string

const (
	// NotInLedger: the provider has been used for what the ledger does not know.
	NotInLedger Kind = "not_in_ledger"
	// NotInExport: the ledger has a usage that the provider does not mention.
	NotInExport Kind = "not_in_export"
	// NoRequestID: the ledger has a usage without the provider's id of the request, so that it cannot be found.
	NoRequestID Kind = "no_request_id"
	// Differs: both know it, with other counts.
	Differs Kind = "differs"
)

// Side is what one side says.
type Side struct {
	Requests          int64 // -1: not said
	InputTokens       int64
	CachedInputTokens int64 // -1: not said
	OutputTokens      int64
	PicoUSD           int64
	Unpriced          int64 // of the requests, those that have no amount
}

// Difference is something on which the two sides do not agree.
type Difference struct {
	Kind      Kind
	Day       time.Time
	Model     string
	RequestID string    // where requests are compared
	TaskID    uuid.UUID // where the ledger knows the request
	Attempt   int
	Export    Side
	Ledger    Side
	Unknown   int64 // attempts of the day and the model of which nothing is known, which may explain it
}

// Off is by how many tokens the sides differ; at least 1.
func (d Difference) Off() int64 {
	off := apart(d.Export.InputTokens, d.Ledger.InputTokens) + apart(d.Export.OutputTokens, d.Ledger.OutputTokens)
	if d.Export.CachedInputTokens >= 0 && d.Ledger.CachedInputTokens >= 0 {
		off += apart(d.Export.CachedInputTokens, d.Ledger.CachedInputTokens)
	}
	return max(1, off)
}

func apart(a, b int64) int64 { return max(a-b, b-a) }

// Report is the outcome of a comparison.
type Report struct {
	ByRequest   bool
	Export      Side
	Ledger      Side
	Differences []Difference // by day, model and request; MaxListed at most
	LeftOut     int          // differences that are not among them
	Off         int64        // the tokens of all of them
}

// MaxListed bounds the differences that are kept.
const MaxListed = 10_000

func (r *Report) differ(d Difference) {
	if len(r.Differences) < MaxListed {
		r.Differences = append(r.Differences, d)
	} else {
		r.LeftOut++
	}
	r.Off = tasks.AddAmounts(r.Off, d.Off())
}

func (r *Report) sort() {
	slices.SortFunc(r.Differences, func(a, b Difference) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Model, b.Model), cmp.Compare(a.RequestID, b.RequestID), slices.Compare(a.TaskID[:], b.TaskID[:]))
	})
}

// side is what a record says. An amount that is not said leaves the sum without one.
func (r Record) side() Side {
	s := Side{Requests: r.Requests, InputTokens: r.InputTokens, CachedInputTokens: r.CachedInputTokens, OutputTokens: r.OutputTokens}
	if r.PicoUSD != nil {
		s.PicoUSD = *r.PicoUSD
	} else {
		s.Unpriced = max(1, r.Requests)
	}
	return s
}

// plus sums sides. What one of them does not say, the sum does not say either.
func (s Side) plus(o Side) Side {
	said := func(a, b int64) int64 {
		if a < 0 || b < 0 {
			return -1
		}
		return tasks.AddAmounts(a, b)
	}
	return Side{
		said(s.Requests, o.Requests), tasks.AddAmounts(s.InputTokens, o.InputTokens), said(s.CachedInputTokens, o.CachedInputTokens),
		tasks.AddAmounts(s.OutputTokens, o.OutputTokens), tasks.AddAmounts(s.PicoUSD, o.PicoUSD), tasks.AddAmounts(s.Unpriced, o.Unpriced),
	}
}

// agrees compares what both sides say, amounts aside.
func (s Side) agrees(o Side) bool {
	said := func(a, b int64) bool { return a == b || a < 0 || b < 0 }
	return s.InputTokens == o.InputTokens && s.OutputTokens == o.OutputTokens && said(s.CachedInputTokens, o.CachedInputTokens) &&
		said(s.Requests, o.Requests)
}

// Within returns the records of a period.
func Within(records []Record, from, to time.Time) []Record {
	return slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Time.Before(from) || !r.Time.Before(to) })
}

type dayModel struct {
	day   time.Time
	model string
}

// CompareDays compares records with the ledger's sums of the same period.
func CompareDays(records []Record, ledger []tasks.DayUsage) Report {
	var report Report
	exported := make(map[dayModel]Side)
	for _, r := range records {
		key := dayModel{day(r.Time), r.Model}
		s := r.side()
		report.Export = report.Export.plus(s)
		if sum, known := exported[key]; known {
			s = sum.plus(s)
		}
		exported[key] = s
	}
	for _, l := range ledger {
		key := dayModel{l.Day, l.Model}
		d := Difference{Kind: Differs, Day: l.Day, Model: l.Model, Unknown: l.Unknown, Ledger: Side{
			l.Requests, l.InputTokens, l.CachedInputTokens, l.OutputTokens, l.PicoUSD, l.Unpriced,
		}}
		report.Ledger = report.Ledger.plus(d.Ledger)
		var known bool
		if d.Export, known = exported[key]; !known {
			d.Kind = NotInExport
		}
		delete(exported, key)
		if known && !d.Export.agrees(d.Ledger) || !known && l.Requests > 0 {
			report.differ(d)
		}
	}
	for key, s := range exported {
		if s.InputTokens > 0 || s.OutputTokens > 0 || s.Requests > 0 {
			report.differ(Difference{Kind: NotInLedger, Day: key.day, Model: key.model, Export: s})
		}
	}
	report.sort()
	return report
}

// Requests compares an export with the ledger request by request. Feed it the ledger with Add, then ask for the Report.
type Requests struct {
	from, to time.Time
	report   Report
	exported map[string]*request
}

type request struct {
	Record
	Side
	found bool
}

// NewRequests takes what the export says of a period. Records outside of it count only where the ledger has them inside:
// clocks differ.
func NewRequests(records []Record, from, to time.Time) *Requests {
	c := &Requests{from: from, to: to, report: Report{ByRequest: true}, exported: make(map[string]*request, len(records))}
	for _, r := range records {
		if known := c.exported[r.RequestID]; known != nil {
			known.Side = known.plus(r.side()) // twice is not once
		} else {
			c.exported[r.RequestID] = &request{Record: r, Side: r.side()}
		}
	}
	return c
}

func (c *Requests) within(t time.Time) bool { return !t.Before(c.from) && t.Before(c.to) }

// Add compares a request of the ledger; give it those shortly before and after the period, too.
func (c *Requests) Add(a tasks.AttemptUsage) {
	d := Difference{
		Day: day(a.StartedAt), Model: a.Model, RequestID: a.RequestID, TaskID: a.TaskID, Attempt: a.Attempt,
		Ledger: Side{Requests: 1, InputTokens: a.InputTokens, CachedInputTokens: a.CachedInputTokens, OutputTokens: a.OutputTokens},
	}
	if a.PicoUSD != nil {
		d.Ledger.PicoUSD = *a.PicoUSD
	} else {
		d.Ledger.Unpriced = 1
	}
	exported := c.exported[a.RequestID]
	if !c.within(a.StartedAt) && (exported == nil || !c.within(exported.Time)) {
		return
	}
	c.report.Ledger = c.report.Ledger.plus(d.Ledger)
	switch {
	case a.RequestID == "":
		d.Kind = NoRequestID
	case exported == nil:
		d.Kind = NotInExport
	default:
		d.Kind, d.Export = Differs, exported.Side
		if exported.found { // the ledger has it twice: the second one has nothing to agree with
			d.Kind, d.Export = NotInExport, Side{}
		}
		exported.found = true
		if d.Export.agrees(d.Ledger) {
			return
		}
	}
	c.report.differ(d)
}

// Report is the comparison of all that was added.
func (c *Requests) Report() Report {
	for _, r := range c.exported {
		if r.found || c.within(r.Time) {
			c.report.Export = c.report.Export.plus(r.Side)
		}
		if !r.found && c.within(r.Time) {
			c.report.differ(Difference{Kind: NotInLedger, Day: day(r.Time), Model: r.Model, RequestID: r.RequestID, Export: r.Side})
		}
	}
	c.report.sort()
	return c.report
}
