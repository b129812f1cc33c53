package procs

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/e2e/otlp"
)

const (
	callersTrace  = "0af7651916cd43dd8448eb211c80319c"
	callersParent = "b7ad6b7169203331"
	secretPrompt  = "a prompt that is nobody's business"
)

// submitTraced sends a message as a caller does who traces, too.
func submitTraced(t *testing.T, w *World, api *Node, key string) Task {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"content": secretPrompt})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.API+"/v1/conversations/traced/messages", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + w.Key, "Idempotency-Key": key, "Content-Type": "application/json",
		"traceparent": "00-" + callersTrace + "-" + callersParent + "-01",
	} {
		req.Header.Set(name, value)
	}
	status, answer, err := do(req)
	var task Task
	if err != nil || status != http.StatusAccepted || json.Unmarshal(answer, &task) != nil {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	return task
}

// TestOneTraceOverThreeProcesses: the caller's trace goes on through the API, the dispatcher, the worker and into the
// provider's request, over a failed attempt too, and no span has a word of what was asked.
func TestOneTraceOverThreeProcesses(t *testing.T) {
	collector := otlp.New(t)
	w := NewWorld(t, 1, "--otel-endpoint", collector.URL)
	w.Model.Rules(`[{"times": 1, "do": "status", "status": 503, "headers": {"Retry-After": "0"}}]`)
	nodes := []*Node{w.Node("api-1", "api"), w.Node("dispatcher-1", "dispatcher"), w.Node("worker-1", "worker")}
	run(t, nodes...)
	task := submitTraced(t, w, nodes[0], "traced-1")
	if again := submitTraced(t, w, nodes[0], "traced-1"); again.ID != task.ID {
		t.Fatalf("the repeat is task %s, not %s", again.ID, task.ID)
	}
	w.waitFinished(t)
	calls := w.Model.Calls()
	stop(t, nodes...) // sends what waits

	spans := map[string][]otlp.Span{}
	byID := map[string]otlp.Span{}
	for _, s := range collector.Spans() {
		word, _, _ := strings.Cut(s.Name, " ")
		spans[word] = append(spans[word], s)
		byID[s.ID] = s
		if s.Trace != callersTrace {
			t.Errorf("%s is in trace %s", s.Name, s.Trace)
		}
		if s.Attributes["fencepost.task"] != task.ID {
			t.Errorf("%s is of task %s", s.Name, s.Attributes["fencepost.task"])
		}
		for k, v := range s.Attributes {
			if strings.Contains(v, "nobody's business") {
				t.Errorf("%s of %s holds the prompt: %s", k, s.Name, v)
			}
		}
	}
	for word, n := range map[string]int{"POST": 2, "send": 1, "process": 2, "chat": 2} {
		if len(spans[word]) != n {
			t.Fatalf("%d spans %q, want %d, of %v", len(spans[word]), word, n, collector.Spans())
		}
	}
	for _, c := range []struct{ word, kind, parent string }{
		{"POST", "SPAN_KIND_SERVER", ""}, {"send", "SPAN_KIND_PRODUCER", "POST"}, {"process", "SPAN_KIND_CONSUMER", "send"}, {"chat", "SPAN_KIND_CLIENT", "process"},
	} {
		for _, s := range spans[c.word] {
			if s.Kind != c.kind {
				t.Errorf("%s has kind %s, want %s", s.Name, s.Kind, c.kind)
			}
			if c.parent == "" {
				if s.Parent != callersParent {
					t.Errorf("%s follows from %s, want the caller", s.Name, s.Parent)
				}
			} else if got := byID[s.Parent].Name; !strings.HasPrefix(got, c.parent+" ") {
				t.Errorf("%s follows from %q, want %s", s.Name, got, c.parent)
			}
		}
	}
	replays := []string{spans["POST"][0].Attributes["fencepost.replayed"], spans["POST"][1].Attributes["fencepost.replayed"]}
	if slices.Sort(replays); !slices.Equal(replays, []string{"false", "true"}) {
		t.Errorf("replayed: %v", replays)
	}
	if s := byID[spans["send"][0].Parent]; s.Attributes["fencepost.replayed"] != "false" {
		t.Error("the record follows from the repeat, not from the submission")
	}
	instances := map[string]bool{}
	for _, word := range []string{"POST", "send", "process"} {
		instances[spans[word][0].Resource["service.instance.id"]] = true
	}
	if len(instances) != 3 {
		t.Errorf("the spans come from %d processes, want 3", len(instances))
	}
	first, second := spans["process"][0], spans["process"][1]
	if first.Attributes["fencepost.attempt"] != "1" {
		first, second = second, first
	}
	if !first.Failed || first.Attributes["error.type"] == "" || second.Failed || !slices.Equal(second.Links, []string{first.ID}) {
		t.Errorf("the second attempt does not follow from the first, which failed:\n%+v\n%+v", first, second)
	}
	if !slices.Equal(second.Events, []string{"claimed", "settled"}) || second.Attributes["settled/fencepost.task_status"] != "completed" {
		t.Errorf("events %v, %v", second.Events, second.Attributes)
	}
	for _, call := range calls {
		if !slices.ContainsFunc(spans["chat"], func(s otlp.Span) bool { return call.Headers.TraceParent == "00-"+callersTrace+"-"+s.ID+"-01" }) {
			t.Errorf("the provider was sent traceparent %q, which is no span of a call", call.Headers.TraceParent)
		}
	}
	answered := spans["chat"][1]
	for _, s := range spans["chat"] {
		if !s.Failed {
			answered = s
		}
	}
	for name, value := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "sim", "gen_ai.request.model": "sim-1", "gen_ai.response.finish_reasons": "stop",
	} {
		if answered.Attributes[name] != value {
			t.Errorf("%s is %q, want %q", name, answered.Attributes[name], value)
		}
	}
	for _, name := range []string{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} {
		if v := answered.Attributes[name]; v == "" || v == "0" {
			t.Errorf("%s is %q", name, v)
		}
	}
}

// TestNothingIsSentWhenTracingIsOff: the caller's traceparent goes along all the same.
func TestNothingIsSentWhenTracingIsOff(t *testing.T) {
	collector := otlp.New(t)
	w := NewWorld(t, 1)
	all := w.Node("all", "api,dispatcher,worker")
	all.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_TRACES_EXPORTER=none"}
	run(t, all)
	submitTraced(t, w, all, "untraced-1")
	w.waitFinished(t)
	calls := w.Model.Calls()
	stop(t, all)
	if n := collector.Posts(); n != 0 {
		t.Errorf("%d requests were sent to the collector", n)
	}
	if want := "00-" + callersTrace + "-" + callersParent + "-01"; len(calls) != 1 || calls[0].Headers.TraceParent != want {
		t.Errorf("the provider was called with %+v, want one call with %s", calls, want)
	}
}
