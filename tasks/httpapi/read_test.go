package httpapi

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

func TestFinishedTask(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"hi"}`)
	a.finish(id, "hello <b>")
	task := a.do("GET", "/v1/tasks/"+id.String(), "").want(t, 200).object(t)
	reply := task["reply"].(map[string]any)
	want := map[string]any{"id": reply["id"], "text": "hello <b>", "model": "m-1", "finish_reason": "stop", "saved_at": task["finished_at"], "attempt": 1.0}
	if diff := cmp.Diff(want, reply); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	cost := map[string]any{"currency": "USD", "amount": "0.000123", "input_tokens": 12.0, "output_tokens": 34.0, "unknown_attempts": 0.0}
	if diff := cmp.Diff(cost, task["cost"]); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
	if _, has := task["available_at"]; has || task["status"] != "completed" || task["error"] != nil || task["assignment_version"] != 1.0 {
		t.Errorf("task %v", task)
	}

	attempts := a.do("GET", "/v1/tasks/"+id.String()+"/attempts", "").want(t, 200).object(t)["attempts"].([]any)
	first := attempts[0].(map[string]any)
	wantAttempt := map[string]any{"attempt": 1.0, "assignment_version": 1.0, "worker": "worker-1", "provider": "sim", "model": "m-1",
		"started_at": first["started_at"], "ended_at": first["ended_at"], "outcome": "accepted", "wire_requests": 1.0,
		"provider_request_id": "req-1", "input_tokens": 12.0, "output_tokens": 34.0, "amount": "0.000123"}
	if diff := cmp.Diff(wantAttempt, first); diff != "" || len(attempts) != 1 {
		t.Errorf("%d attempts, the first (-want +got):\n%s", len(attempts), diff)
	}

	chat := a.do("GET", messages, "").want(t, 200).object(t)["messages"].([]any)
	message := chat[0].(map[string]any)
	wantMessage := map[string]any{"id": task["message_id"], "role": "user", "content": "hi", "created_at": task["accepted_at"],
		"replies": []any{map[string]any{"id": reply["id"], "task": id.String(), "text": "hello <b>", "model": "m-1", "saved_at": reply["saved_at"], "current": true}}}
	if diff := cmp.Diff(wantMessage, message); diff != "" || len(chat) != 1 {
		t.Errorf("%d messages, the first (-want +got):\n%s", len(chat), diff)
	}
}

func TestI8_OthersObjectsAreAsUnknownOnes(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"hi"}`)
	for _, request := range [][2]string{{"GET", ""}, {"GET", "?wait=10s"}, {"GET", "/attempts"}, {"POST", "/cancel"}} {
		var bodies []string
		for _, task := range []string{id.String(), uuid.NewString(), "x", "{" + id.String() + "}"} {
			got := a.do(request[0], "/v1/tasks/"+task+request[1], "", "Authorization", "Bearer "+a.other)
			got.problem(t, http.StatusNotFound, "not_found")
			bodies = append(bodies, string(got.body))
		}
		for _, body := range bodies {
			if body != bodies[0] {
				t.Errorf("%v tells: %v", request, bodies)
			}
		}
	}
	if got := a.do("GET", messages, "", "Authorization", "Bearer "+a.other).want(t, 200); string(got.body) != "{\"messages\":[]}\n" {
		t.Errorf("another workspace's conversation: %s", got.body)
	}
	if got := a.do("GET", "/v1/tasks", "", "Authorization", "Bearer "+a.other).want(t, 200); string(got.body) != "{\"tasks\":[]}\n" {
		t.Errorf("another workspace's tasks: %s", got.body)
	}
	if task := a.do("GET", "/v1/tasks/"+id.String(), "").want(t, 200).object(t); task["status"] != "queued" {
		t.Errorf("another workspace changed the task: %v", task)
	}
}

func TestCancelSaysWhetherItChangedAnything(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"hi"}`)
	for _, changed := range []bool{true, false} {
		task := a.do("POST", "/v1/tasks/"+id.String()+"/cancel", "").want(t, 200).object(t)
		if task["changed"] != changed || task["status"] != "cancelled" || task["id"] != id.String() || (task["detail"] == nil) != changed {
			t.Errorf("changed %v: %v", changed, task)
		}
	}
	done := a.send("k2", `{"content":"hi"}`)
	a.finish(done, "x")
	if task := a.do("POST", "/v1/tasks/"+done.String()+"/cancel", "").want(t, 200).object(t); task["changed"] != false || task["status"] != "completed" {
		t.Errorf("%v", task)
	}
}

func TestPages(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.MaxPage = 3 })
	var ids []string // newest first
	for i := range 7 {
		ids = append([]string{a.send(fmt.Sprint(i), fmt.Sprintf(`{"content":"m%d"}`, i)).String()}, ids...)
	}
	a.do("POST", "/v1/conversations/c2/messages", `{"content":"x"}`, "Idempotency-Key", "other").want(t, 202)

	// read follows next from page to page.
	read := func(path, list, name string) (got []string, sizes []int) {
		for after := ""; ; {
			page := a.do("GET", path+after, "").want(t, 200).object(t)
			items := page[list].([]any)
			sizes = append(sizes, len(items))
			for _, item := range items {
				got = append(got, item.(map[string]any)[name].(string))
			}
			next, ok := page["next"].(string)
			if !ok {
				return got, sizes
			}
			after = "&after=" + next
		}
	}
	got, sizes := read("/v1/tasks?conversation=c1&status=queued&limit=2", "tasks", "id")
	if diff := cmp.Diff(ids, got); diff != "" || fmt.Sprint(sizes) != "[2 2 2 1]" {
		t.Errorf("pages of %v (-want +got):\n%s", sizes, diff)
	}
	got, sizes = read(messages+"?limit=1000", "messages", "content")
	if diff := cmp.Diff([]string{"m0", "m1", "m2", "m3", "m4", "m5", "m6"}, got); diff != "" || fmt.Sprint(sizes) != "[3 3 1]" {
		t.Errorf("pages of %v (-want +got):\n%s", sizes, diff)
	}
	a.do("GET", "/v1/tasks?limit=1000000000000000000000000", "").want(t, 200)
	if got, _ := read("/v1/tasks?status=completed", "tasks", "id"); got != nil {
		t.Errorf("completed: %v", got)
	}
	for query, field := range map[string]string{
		"status=done": "status", "status=": "status", "limit=0": "limit", "limit=-1": "limit", "limit=-1000000000000000000000000": "limit", "limit=x": "limit", "after=5": "after",
		"conversation=": "conversation", "state=queued": "state", "status=queued&status=failed": "status", "%zz": "query", "a;b": "query",
	} {
		if p := a.do("GET", "/v1/tasks?"+query, "").problem(t, 400, "invalid_request"); p["field"] != field {
			t.Errorf("%s: field %v, want %s", query, p["field"], field)
		}
	}
	for _, query := range []string{"after=x", "after=-1", "after=" + ids[0], "after=9223372036854775808"} {
		if p := a.do("GET", messages+"?"+query, "").problem(t, 400, "invalid_request"); p["field"] != "after" {
			t.Errorf("%s: field %v", query, p["field"])
		}
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	a := newAPI(t, nil)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/tasks/", "//v1/tasks", "/v1/../v1/tasks", "/v1/conversations//messages",
		"/v1/conversations/c1", "/v1/tasks/x/y", "/v2/tasks"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			a.do(method, path, "").problem(t, http.StatusNotFound, "not_found")
		}
	}
	for _, test := range [][3]string{
		{"DELETE", messages, "GET, HEAD, POST"}, {"PUT", "/v1/tasks", "GET, HEAD"}, {"POST", "/v1/tasks/x", "GET, HEAD"},
		{"POST", "/v1/tasks/x/attempts", "GET, HEAD"}, {"GET", "/v1/tasks/x/cancel", "POST"}, {"OPTIONS", "/v1/tasks/x/cancel", "POST"},
	} {
		got := a.do(test[0], test[1], "")
		got.problem(t, http.StatusMethodNotAllowed, "method_not_allowed")
		if got.Header.Get("Allow") != test[2] {
			t.Errorf("Allow %q, want %q", got.Header.Get("Allow"), test[2])
		}
	}
	if head := a.do("HEAD", "/v1/tasks", "").want(t, 200); len(head.body) != 0 {
		t.Errorf("body of HEAD: %s", head.body)
	}
}

func TestRequestIDs(t *testing.T) {
	a := newAPI(t, nil)
	for _, id := range []string{"", "with space", string(make([]byte, 0, 1)), "ünicode", fmt.Sprintf("%0129d", 0)} {
		got := a.do("GET", "/v1/nothing", "", "X-Request-Id", id).Header.Get("X-Request-Id")
		if _, err := uuid.Parse(got); err != nil {
			t.Errorf("for %q: %q", id, got)
		}
	}
	long := fmt.Sprintf("%0128d", 0)
	if got := a.do("GET", "/v1/nothing", "", "X-Request-Id", long).Header.Get("X-Request-Id"); got != long {
		t.Errorf("%q", got)
	}
}

func TestTraceParent(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for in, want := range map[string]string{
		"00-" + trace + "-" + span + "-01":                    "00-" + trace + "-" + span + "-01",
		"cc-" + trace + "-" + span + "-01-more":               "00-" + trace + "-" + span + "-01",
		"00-" + trace + "-" + span + "-01-more":               "",
		"cc-" + trace + "-" + span + "-01more":                "",
		"ff-" + trace + "-" + span + "-01":                    "",
		"00-0AF7651916CD43DD8448EB211C80319C-" + span + "-01": "",
		"00-00000000000000000000000000000000-" + span + "-01": "",
		"00-" + trace + "-0000000000000000-01":                "",
		"00-" + trace + "-" + span:                            "",
		"":                                                    "",
	} {
		if got := traceParent(http.Header{"Traceparent": {in}}); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestI7_AnUnknownAmountIsNull(t *testing.T) {
	pico := int64(123_000_000)
	for want, m := range map[string]money{"null": {}, `"0.000123"`: {&pico}} {
		if b, err := m.MarshalJSON(); err != nil || string(b) != want {
			t.Errorf("%s, %v; want %s", b, err, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a := newAPI(t, func(c *Config) { c.Registerer = registry })
	a.send("k1", `{"content":"hi"}`)
	a.do("GET", "/v1/tasks/x?y=z", "")
	a.do("GET", "/no/such/route", "")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	want := map[string]int{"fencepost_http_requests_total": 3, "fencepost_http_problems_total": 1, "fencepost_http_request_seconds": 3, "fencepost_http_submit_batch_size": 1,
		"fencepost_http_submit_queue": 1, "fencepost_http_waiting_requests": 1, "fencepost_http_waiting_queries_total": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
