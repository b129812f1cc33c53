package procs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// door is OpenAI's own client, with another base URL and its retries as they are.
func door(t *testing.T, w *World, base string) *openai.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	client := openai.NewClient(option.WithBaseURL(base+"/v1/"), option.WithAPIKey(w.Key), option.WithHTTPClient(&http.Client{Transport: transport}))
	return &client
}

func key(k string) option.RequestOption { return option.WithHeader("Idempotency-Key", k) }

func asks(content string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "m-1", Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("Be kind."), openai.UserMessage(content),
	}}
}

// told asks for a stream and returns its text. complete: it came to its end.
func told(ctx context.Context, client *openai.Client, k, content string) (text string, complete bool, err error) {
	params := asks(content)
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, params, key(k))
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			return "", false, errors.New("the chunks are not of one answer")
		}
	}
	if len(all.Choices) > 0 {
		text = all.Choices[0].Message.Content
		complete = stream.Err() == nil && all.Choices[0].FinishReason == "stop" && all.Usage.TotalTokens > 0
	}
	return text, complete, stream.Err()
}

// OpenAI's client, unchanged but for base URL and key, with its own retries, through a proxy that resets connections at
// random: requests before they arrive, answers before they are read, and streams in their middle. An application that
// repeats what the client gives up gets one answer, and the model is called once for each key.
func TestI1_I6_OneCallForEachKeyThroughTheDoor(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	w.Model.Rules(`[{"latency": "100ms", "chunk_latency": "20ms"}]`)
	front, worker := w.Node("front", "api,dispatcher"), w.Node("worker", "worker")
	run(t, front, worker)
	between := listen(t, proxy.HTTP, strings.TrimPrefix(front.API, "http://"))
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	lost := 0
	between.Rule(func(string) proxy.Action {
		mu.Lock()
		defer mu.Unlock()
		action := []proxy.Action{proxy.Forward, proxy.Forward, proxy.LoseRequest, proxy.LoseAnswer}[random.IntN(4)]
		if action != proxy.Forward {
			lost++
		}
		return action
	})
	client := door(t, w, "http://"+between.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var cutting sync.WaitGroup
	stopCutting := make(chan struct{})
	cutting.Go(func() {
		for {
			select {
			case <-stopCutting:
				return
			case <-time.After(350 * time.Millisecond):
				between.Cut()
			}
		}
	})
	const keys = 30
	var asking sync.WaitGroup
	answers := make([]string, keys)
	for i := range keys {
		asking.Go(func() {
			k, content := fmt.Sprint("door-", i), fmt.Sprintf("question %d %s", i, strings.Repeat("and more ", 12))
			for ctx.Err() == nil {
				if i%2 == 0 {
					got, err := client.Chat.Completions.New(ctx, asks(content), key(k))
					if err == nil {
						answers[i] = got.Choices[0].Message.Content
						return
					}
				} else if text, complete, err := told(ctx, client, k, content); complete {
					answers[i] = text
					return
				} else if err == nil {
					t.Errorf("%s: the stream ended without its end, and without an error", k)
					return
				}
			}
		})
	}
	asking.Wait()
	close(stopCutting)
	cutting.Wait()
	between.Heal()
	mu.Lock()
	t.Logf("%d requests or answers were lost", lost)
	if lost == 0 {
		t.Error("the proxy lost nothing")
	}
	mu.Unlock()

	calls := make(map[string]int)
	for _, c := range w.Model.Calls() {
		calls[c.Content]++
	}
	for i := range keys {
		k, content := fmt.Sprint("door-", i), fmt.Sprintf("question %d %s", i, strings.Repeat("and more ", 12))
		if answers[i] != "echo: "+content || calls[content] != 1 {
			t.Errorf("%s: %d calls, answer %q", k, calls[content], answers[i])
		}
		// The other way of asking is the same request.
		var raw *http.Response
		got, err := client.Chat.Completions.New(ctx, asks(content), key(k), option.WithResponseInto(&raw))
		if err != nil || got.Choices[0].Message.Content != answers[i] || got.Usage.TotalTokens == 0 || raw.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s again: %+v, %v", k, got, err)
		}
		if text, complete, err := told(ctx, client, k, content); text != answers[i] || !complete {
			t.Errorf("%s again, streamed: %q, %v", k, text, err)
		}
	}
	if n := w.saved(t); n != keys {
		t.Errorf("%d replies for %d keys", n, keys)
	}
	var problem *openai.Error
	if _, err := client.Chat.Completions.New(ctx, asks("other"), key("door-0")); !errors.As(err, &problem) || problem.StatusCode != 422 || problem.Code != "idempotency_key_reused" {
		t.Errorf("other inputs: %v", err)
	}
	if _, err := client.Chat.Completions.New(ctx, asks("other")); !errors.As(err, &problem) || problem.StatusCode != 400 || problem.Code != "idempotency_key_missing" {
		t.Errorf("no key: %v", err)
	}
	models, err := client.Models.List(ctx)
	if err != nil || models.Object != "list" {
		t.Errorf("models %+v, %v", models, err)
	}
	stop(t, worker, front)
}

// A worker that dies between claim and end does not lock the key: another one takes the task over, and all who wait for
// it get its one answer.
func TestBoundary_I6_DeadOwnerDoesNotLockTheDoor(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 1, quick...)
	w.Model.Rules(`[{"chunk_latency": "150ms"}]`)
	front, first, second := w.Node("front", "api,dispatcher"), w.Node("worker-1", "worker"), w.Node("worker-2", "worker")
	run(t, front, first)
	client := door(t, w, front.API)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const content = "a question whose answer takes the worker's life before it is whole"
	type answer struct {
		text string
		err  error
	}
	plain, streamed := make(chan answer, 1), make(chan answer, 1)
	go func() {
		got, err := client.Chat.Completions.New(ctx, asks(content), key("k"))
		if err != nil {
			plain <- answer{err: err}
			return
		}
		plain <- answer{text: got.Choices[0].Message.Content}
	}()
	begun := make(chan struct{})
	go func() {
		stream := client.Chat.Completions.NewStreaming(ctx, asks(content), key("k"))
		defer stream.Close()
		text := ""
		for stream.Next() {
			for _, c := range stream.Current().Choices {
				if text == "" && c.Delta.Content != "" {
					close(begun)
				}
				text += c.Delta.Content
			}
		}
		streamed <- answer{text, stream.Err()}
	}()
	select {
	case <-begun:
	case <-ctx.Done():
		t.Fatal("no token came")
	}
	kill(t, first)
	run(t, second)
	for name, out := range map[string]chan answer{"whole": plain, "streamed": streamed} {
		if got := <-out; got.err != nil || got.text != "echo: "+content {
			t.Errorf("%s: %q, %v", name, got.text, got.err)
		}
	}
	if calls, n := len(w.Model.Calls()), w.saved(t); calls != 2 || n != 1 {
		t.Errorf("%d calls and %d replies, want one that died and one that answered", calls, n)
	}
	stop(t, second, front)
}

// Tools go out and calls come back, results go out and the answer comes back; JSON mode is a parameter like others.
func TestDoorPassesToolsAndFormatsThrough(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 1, quick...)
	w.Model.Rules(`[{"match": {"contains": "weather"}, "times": 2, "tool_calls": [{"id": "call_1", "function": {"name": "weather", "arguments": "{\"city\":\"Zürich <Kreis 4>\"}"}}]},
		{"match": {"contains": "weather"}, "text": "It rains."}, {"text": "{\"a\":1}"}]`)
	front, worker := w.Node("front", "api,dispatcher", "--require-key=false"), w.Node("worker", "worker")
	run(t, front, worker)
	client := door(t, w, front.API)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	params := asks("what is the weather?")
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})}
	called, err := client.Chat.Completions.New(ctx, params, key("k1"))
	if err != nil || called.Choices[0].FinishReason != "tool_calls" || len(called.Choices[0].Message.ToolCalls) != 1 {
		t.Fatalf("%+v, %v", called, err)
	}
	call := called.Choices[0].Message.ToolCalls[0]
	if call.ID != "call_1" || call.Function.Name != "weather" || call.Function.Arguments != `{"city":"Zürich <Kreis 4>"}` {
		t.Errorf("call %+v", call)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, params, key("k1"))
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if got := all.Choices; stream.Err() != nil || len(got) != 1 || len(got[0].Message.ToolCalls) != 1 || got[0].Message.ToolCalls[0].Function.Arguments != call.Function.Arguments {
		t.Errorf("streamed %+v, %v", got, stream.Err())
	}
	// A new key: the same words are new work, and the calls are in the ledger of the model with their parameters.
	if _, err := client.Chat.Completions.New(ctx, params, key("k2")); err != nil {
		t.Error(err)
	}
	params.Messages = append(params.Messages, called.Choices[0].Message.ToParam(), openai.ToolMessage("rain", call.ID))
	answered, err := client.Chat.Completions.New(ctx, params, key("k3"))
	if err != nil || answered.Choices[0].Message.Content != "It rains." {
		t.Errorf("%+v, %v", answered, err)
	}
	object := asks("as an object, please")
	object.ResponseFormat.OfJSONObject = &openai.ResponseFormatJSONObjectParam{}
	object.Seed = openai.Int(7)
	if got, err := client.Chat.Completions.New(ctx, object, key("k4")); err != nil || got.Choices[0].Message.Content != `{"a":1}` {
		t.Errorf("%+v, %v", got, err)
	}
	// Here a call may come without a key, and has one all the same.
	var made *http.Response
	if _, err := client.Chat.Completions.New(ctx, asks("without a key"), option.WithResponseInto(&made)); err != nil || made.Header.Get("Idempotency-Key") == "" {
		t.Errorf("without a key: %v", err)
	}
	_, body, err := get(ctx, w.Model.URL+"/sim/requests")
	if err != nil {
		t.Fatal(err)
	}
	if list := string(body); len(w.Model.Calls()) != 5 || strings.Count(list, `"response_format":{"type":"json_object"},"seed":7`) != 1 || strings.Count(list, `"tools":[`) != 3 {
		t.Errorf("the model's ledger: %s", list)
	}
	stop(t, worker, front)
}
