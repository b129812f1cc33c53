package usage

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// named is what a difference says, in short.
func named(r Report) []string {
	var out []string
	for _, d := range r.Differences {
		out = append(out, fmt.Sprintf("%s %s %s%s %d/%d off %d unknown %d", d.Kind, d.Day.Format(time.DateOnly), d.Model, d.RequestID,
			d.Export.InputTokens, d.Ledger.InputTokens, d.Off(), d.Unknown))
	}
	return out
}

func TestCompareDays(t *testing.T) {
	record := func(when time.Time, model string, requests, input, cached, output int64) Record {
		return Record{Time: when, Model: model, Requests: requests, InputTokens: input, CachedInputTokens: cached, OutputTokens: output, PicoUSD: ptr[int64](7)}
	}
	records := []Record{
		record(at(29), "same", 2, 10, 4, 20), record(at(29).Add(23*time.Hour), "same", 1, 1, 1, 1), // two buckets of a day
		record(at(29), "uncounted", -1, 10, -1, 20),
		record(at(29), "tokens", 2, 10, 4, 20),
		record(at(29), "cached", 2, 10, 4, 20),
		record(at(29), "requests", 2, 10, 4, 20),
		record(at(30), "same", 1, 10, 0, 20),
		record(at(30), "unheard", 1, 5, 0, 5),
		record(at(30), "nothing", 0, 0, 0, 0),
	}
	ledger := []tasks.DayUsage{
		{Day: at(29), Model: "same", Requests: 3, InputTokens: 11, CachedInputTokens: 5, OutputTokens: 21, PicoUSD: 99, Unpriced: 1},
		{Day: at(29), Model: "uncounted", Requests: 7, InputTokens: 10, CachedInputTokens: 3, OutputTokens: 20},
		{Day: at(29), Model: "tokens", Requests: 2, InputTokens: 13, CachedInputTokens: 4, OutputTokens: 16, Unknown: 2},
		{Day: at(29), Model: "cached", Requests: 2, InputTokens: 10, CachedInputTokens: 6, OutputTokens: 20},
		{Day: at(29), Model: "requests", Requests: 1, InputTokens: 10, CachedInputTokens: 4, OutputTokens: 20},
		{Day: at(30), Model: "unseen", Requests: 1, InputTokens: 1, OutputTokens: 2},
		{Day: at(30), Model: "nothing known", Unknown: 4},
	}
	got := CompareDays(records, ledger)
	want := []string{
		"differs 2026-11-29 cached 10/10 off 2 unknown 0",
		"differs 2026-11-29 requests 10/10 off 1 unknown 0",
		"differs 2026-11-29 tokens 10/13 off 7 unknown 2",
		"not_in_ledger 2026-11-30 same 10/0 off 30 unknown 0",
		"not_in_ledger 2026-11-30 unheard 5/0 off 10 unknown 0",
		"not_in_export 2026-11-30 unseen 0/1 off 3 unknown 0",
	}
	if diff := cmp.Diff(want, named(got)); diff != "" || got.Off != 53 || got.ByRequest {
		t.Errorf("off %d (-want +got):\n%s", got.Off, diff)
	}
	if e := got.Export; e.InputTokens != 66 || e.Requests != -1 || e.PicoUSD != 63 || e.Unpriced != 0 {
		t.Errorf("export %+v", e)
	}
	if l := got.Ledger; l.InputTokens != 55 || l.Requests != 16 || l.Unpriced != 1 {
		t.Errorf("ledger %+v", l)
	}
	if equal := CompareDays(nil, nil); len(equal.Differences) != 0 || equal.Off != 0 {
		t.Errorf("nothing and nothing: %+v", equal)
	}
}

func TestCompareRequests(t *testing.T) {
	record := func(id string, when time.Time, input int64) Record {
		return Record{Time: when, Model: "m", RequestID: id, Requests: 1, InputTokens: input, CachedInputTokens: -1, OutputTokens: 1}
	}
	attempt := func(id string, when time.Time, input int64) tasks.AttemptUsage {
		return tasks.AttemptUsage{TaskID: uuid.New(), Attempt: 1, StartedAt: when, Model: "m", RequestID: id, InputTokens: input, CachedInputTokens: 9, OutputTokens: 1}
	}
	from, to := at(29), at(30)
	before, inside, after := from.Add(-time.Minute), from.Add(time.Hour), to.Add(time.Minute)
	c := NewRequests([]Record{
		record("a same", inside, 10), record("b differs", inside, 10), record("c unheard", inside, 10),
		record("d begins before", inside, 10), record("e is said to begin after", after, 10),
		record("f outside", before, 10), record("g twice", inside, 10), record("g twice", inside, 10), record("h", inside, 10),
	}, from, to)
	for _, a := range []tasks.AttemptUsage{
		attempt("a same", inside, 10), attempt("b differs", inside, 12), attempt("d begins before", before, 10),
		attempt("e is said to begin after", inside, 10), attempt("f outside", before, 11), attempt("g twice", inside, 10),
		attempt("h", inside, 10), attempt("h", inside, 10), attempt("unseen", inside, 5), attempt("unseen outside", after, 5), attempt("", inside, 3),
	} {
		c.Add(a)
	}
	got := c.Report()
	want := []string{
		"no_request_id 2026-11-29 m 0/3 off 13 unknown 0",
		"differs 2026-11-29 mb differs 10/12 off 2 unknown 0",
		"not_in_ledger 2026-11-29 mc unheard 10/0 off 11 unknown 0",
		"differs 2026-11-29 mg twice 20/10 off 11 unknown 0",
		"not_in_export 2026-11-29 mh 0/10 off 20 unknown 0",
		"not_in_export 2026-11-29 munseen 0/5 off 15 unknown 0",
	}
	if diff := cmp.Diff(want, named(got)); diff != "" || !got.ByRequest {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Export.Requests != 8 || got.Ledger.Requests != 9 {
		t.Errorf("export %+v, ledger %+v", got.Export, got.Ledger)
	}
}

func TestReportIsBounded(t *testing.T) {
	var r Report
	for range MaxListed + 5 {
		r.differ(Difference{Export: Side{InputTokens: 2}})
	}
	if len(r.Differences) != MaxListed || r.LeftOut != 5 || r.Off != 2*(MaxListed+5) {
		t.Errorf("%d listed, %d left out, off by %d", len(r.Differences), r.LeftOut, r.Off)
	}
}
