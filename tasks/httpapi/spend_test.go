package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/tasks"
)

func sums(n float64) map[string]any {
	return map[string]any{
		"attempts": n, "input_tokens": 12 * n, "cached_input_tokens": 0.0, "output_tokens": 34 * n, "reasoning_tokens": 0.0,
		"amount": tasks.Dollars(int64(n) * 123_000_000), "unknown_attempts": 0.0, "unpriced_attempts": 0.0,
		"not_accepted": map[string]any{"attempts": 0.0, "amount": "0"}, "saved": map[string]any{"replays": 0.0, "amount": "0"},
	}
}

func with(sum map[string]any, pairs ...any) map[string]any {
	for i := 0; i < len(pairs); i += 2 {
		sum[pairs[i].(string)] = pairs[i+1]
	}
	return sum
}

func TestI7_Spend(t *testing.T) {
	a := newAPI(t, nil)
	ask := func(query string) map[string]any {
		t.Helper()
		return a.do("GET", "/v1/spend"+query, "").want(t, 200).object(t)
	}
	nothing := map[string]any{"by": "day", "currency": "USD", "spend": []any{}, "total": sums(0)}
	if diff := cmp.Diff(nothing, ask("")); diff != "" {
		t.Errorf("nothing spent (-want +got):\n%s", diff)
	}
	const body = `{"content":"hi","document":{"id":"d","version":"2"}}`
	id := a.send("k1", body)
	a.finish(id, "hello")
	a.send("k1", body) // a replay
	a.finish(a.send("k2", `{"content":"hi"}`), "hello")
	lost := a.claim(a.send("k3", `{"content":"hi","max_attempts":1}`))
	a.settle(lost, tasks.Settlement{Outcome: tasks.OutcomeFail, Failure: tasks.Failure{Class: "ambiguous"}, Call: tasks.Call{WireRequests: 1}})

	saved := map[string]any{"replays": 1.0, "amount": "0.000123"}
	total := with(sums(2), "attempts", 3.0, "unknown_attempts", 1.0, "saved", saved)
	day := time.Now().UTC().Format(time.DateOnly)
	if rows := ask("")["spend"].([]any); len(rows) == 1 {
		day = rows[0].(map[string]any)["day"].(string)
	}
	for query, want := range map[string][]any{
		"":                 {with(sums(2), "day", day, "attempts", 3.0, "unknown_attempts", 1.0, "saved", saved)},
		"?by=document":     {with(sums(1), "attempts", 2.0, "unknown_attempts", 1.0), with(sums(1), "document", map[string]any{"id": "d", "version": "2"}, "saved", saved)},
		"?by=conversation": {with(sums(2), "conversation", "c1", "attempts", 3.0, "unknown_attempts", 1.0, "saved", saved)},
		"?by=model": {with(sums(2), "model", "m-1", "saved", saved),
			with(sums(0), "model", "m-default", "attempts", 1.0, "amount", nil, "unknown_attempts", 1.0)},
	} {
		got := ask(query)
		if diff := cmp.Diff(want, got["spend"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		if diff := cmp.Diff(total, got["total"]); diff != "" || got["next"] != nil {
			t.Errorf("%s: next %v, total (-want +got):\n%s", query, got["next"], diff)
		}
	}
	of := ask("?by=model&document=d&from=" + day)
	if diff := cmp.Diff([]any{with(sums(1), "model", "m-1", "saved", saved)}, of["spend"]); diff != "" {
		t.Errorf("of a document (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(nothing, ask("?to=2020-01-01")); diff != "" {
		t.Errorf("of a time in which there was nothing (-want +got):\n%s", diff)
	}
	// I8: another workspace has spent nothing.
	if other := a.do("GET", "/v1/spend", "", "Authorization", "Bearer "+a.other).want(t, 200).object(t); !cmp.Equal(nothing, other) {
		t.Errorf("another workspace has spent %v", other)
	}
}

func TestSpendInPages(t *testing.T) {
	a := newAPI(t, nil)
	for n := range 5 {
		a.finish(a.send(fmt.Sprint("k", n), fmt.Sprintf(`{"content":"hi","document":{"id":"d/%d"}}`, n)), "hello")
	}
	var ids []string
	for after := ""; ; {
		page := a.do("GET", "/v1/spend?by=document&limit=2"+after, "").want(t, 200).object(t)
		for _, row := range page["spend"].([]any) {
			ids = append(ids, row.(map[string]any)["document"].(map[string]any)["id"].(string))
		}
		if total := page["total"].(map[string]any)["attempts"]; total != 5.0 {
			t.Fatalf("%v attempts in all", total)
		}
		next, more := page["next"].(string)
		if !more {
			break
		}
		after = "&after=" + url.QueryEscape(next)
		// What is by one thing leads nowhere by another.
		a.do("GET", "/v1/spend?by=model"+after, "").problem(t, 400, "invalid_request")
	}
	if !slices.Equal(ids, []string{"d/0", "d/1", "d/2", "d/3", "d/4"}) {
		t.Errorf("pages of %v", ids)
	}
}

func TestSpendSaysWhatIsWrong(t *testing.T) {
	a := newAPI(t, nil)
	for query, field := range map[string]string{
		"by=worker": "by", "by=": "by", "document=": "document", "document=%00": "document", "from=2026-11-31": "from", "from=0000-01-01": "from",
		"to=2026-11-30T00:00:00Z": "to", "limit=0": "limit", "after=x": "after", "after=WyJkYXkiLCJ4IiwiIl0": "after", "workspace=w2": "workspace",
	} {
		if p := a.do("GET", "/v1/spend?"+query, "").problem(t, 400, "invalid_request"); p["field"] != field {
			t.Errorf("%s: %v", query, p)
		}
	}
}
