package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

// counts are the simulator's counts of calls and of lookups.
func (w *world) counts(t *testing.T) (n struct{ Requests, Lookups int64 }) {
	t.Helper()
	if err := json.Unmarshal(w.control(t, "GET", "/sim/totals", ""), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOracleOfStoredCompletions shows that OpenAI's own client finds a stored completion by its metadata, and that what we
// recover is what it finds, for an answer that never came.
func TestOracleOfStoredCompletions(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.idle)
	for _, stream := range []bool{false, true} {
		op := fmt.Sprintf("op-%v", stream)
		w.control(t, "PUT", "/sim/rules", `[{"do":"reset_after_headers","text":"lost and found","output_tokens":9,"reasoning_tokens":4,"cached_tokens":2}]`)
		w.control(t, "DELETE", "/sim/requests", "")
		p := newProvider(t, openai.Config{
			BaseURL: w.http.URL + "/v1", Stream: stream, Recovery: llm.RecoveryConfig{Kind: llm.RecoverStored},
		})
		req := llm.Request{Model: "m", Content: question, Op: op}
		if got := ours(p.Call(context.Background(), req)); got.Class != llm.Ambiguous {
			t.Fatalf("%+v", got)
		}
		got := ours(p.Recover(context.Background(), req, llm.Lost{Op: op, Same: true}))

		service := sdk.NewChatCompletionService(options(w)...)
		page, err := service.List(context.Background(), sdk.ChatCompletionListParams{Metadata: map[string]string{"fencepost_op": op}})
		if err != nil || len(page.Data) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		one, err := service.Get(context.Background(), page.Data[0].ID)
		if err != nil || one.ID != page.Data[0].ID {
			t.Fatalf("%+v, %v", one, err)
		}
		choice, u := one.Choices[0], one.Usage
		cached := u.PromptTokensDetails.CachedTokens
		want := heard{Text: choice.Message.Content, Finish: choice.FinishReason, RequestID: got.RequestID, Usage: &llm.Usage{
			InputTokens: u.PromptTokens - cached, CachedInputTokens: cached, OutputTokens: u.CompletionTokens, ReasoningTokens: u.CompletionTokensDetails.ReasoningTokens,
		}}
		if diff := cmp.Diff(want, got); diff != "" || got.Text != "lost and found" {
			t.Errorf("-theirs +ours\n%s", diff)
		}
		if none, err := service.List(context.Background(), sdk.ChatCompletionListParams{Metadata: map[string]string{"fencepost_op": "another"}}); err != nil || len(none.Data) != 0 {
			t.Errorf("%+v, %v", none, err)
		}
		if n := w.counts(t); n.Requests != 1 || n.Lookups < 4 {
			t.Errorf("%+v", n)
		}
	}
}

// TestOracleOfTheBackground shows the same of a response in the background: polled, streamed again from a place, and
// cancelled.
func TestOracleOfTheBackground(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.idle)
	ctx := context.Background()
	service := responses.NewResponseService(options(w)...)
	params := responseParams(0)
	params.Background, params.Store = sdk.Bool(true), sdk.Bool(true)

	// Streamed, and cut: the rest comes from where it was.
	w.control(t, "PUT", "/sim/rules", `[{"do":"cut_stream","latency":"20ms"}]`)
	first := service.NewStreaming(ctx, params)
	id, last, text := "", int64(-1), ""
	read := func(next func() bool, current func() responses.ResponseStreamEventUnion) (whole *said) {
		for next() {
			e := current()
			if e.SequenceNumber != last+1 {
				t.Errorf("event %d follows %d", e.SequenceNumber, last)
			}
			last = e.SequenceNumber
			switch e.Type {
			case "response.created":
				id = e.Response.ID
			case "response.output_text.delta":
				text += e.Delta
			case "response.completed":
				whole = &said{}
				whole.of(&e.Response)
			}
		}
		return whole
	}
	if whole := read(first.Next, first.Current); whole != nil || first.Err() == nil || id == "" || text == "" {
		t.Fatalf("%+v, %v, %q %q", whole, first.Err(), id, text)
	}
	first.Close()
	// This version of the vendor's client says stream in a body of its GET; the API's own documents say it in the query.
	rest := service.GetStreaming(ctx, id, responses.ResponseGetParams{StartingAfter: sdk.Int(last)}, option.WithQuery("stream", "true"))
	whole := read(rest.Next, rest.Current)
	if whole == nil || rest.Err() != nil || whole.text != text {
		t.Fatalf("%+v, %v, %q", whole, rest.Err(), text)
	}
	rest.Close()

	// What the adapter comes to under the same rule, over as many connections as it takes.
	p, err := openai.NewResponses(openai.Config{
		BaseURL: w.http.URL + "/v1", APIKey: key, Stream: true, Recovery: llm.RecoveryConfig{Kind: llm.RecoverBackground},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	ref := ""
	noted := func(_ context.Context, to string) error { ref = to; return nil }
	got := ours(p.Call(ctx, llm.Request{Model: "m", System: "be brief", Content: question, Op: "op-1", Noted: noted}))
	want := whole.heard()
	want.RequestID = got.RequestID
	if diff := cmp.Diff(want, got); diff != "" || ref == "" {
		t.Errorf("ref %q, -theirs +ours\n%s", ref, diff)
	}
	polled, err := service.Get(ctx, ref, responses.ResponseGetParams{})
	if err != nil || polled.Status != "completed" || polled.OutputText() != got.Text {
		t.Errorf("%+v, %v", polled, err)
	}

	// Queued, in progress, cancelled.
	w.control(t, "PUT", "/sim/rules", `[{"do":"hang"}]`)
	res, err := service.New(ctx, params)
	if err != nil || res.Status != "queued" || res.JSON.Usage.Valid() || !res.Background {
		t.Fatalf("%+v, %v", res, err)
	}
	if res, err = service.Get(ctx, res.ID, responses.ResponseGetParams{}); err != nil || res.Status != "in_progress" {
		t.Errorf("%+v, %v", res, err)
	}
	for range 2 {
		if res, err = service.Cancel(ctx, res.ID); err != nil || res.Status != "cancelled" || res.JSON.Usage.Valid() {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if _, err := service.Get(ctx, "resp_unknown", responses.ResponseGetParams{}); (said{err: err}).heard().Status != 404 {
		t.Errorf("%v", err)
	}

	// Failed: said by the status alone.
	w.control(t, "PUT", "/sim/rules", `[{"do":"fail","body":{"code":"rate_limit_exceeded","message":"slow down"}}]`)
	if res, err = service.New(ctx, params); err != nil {
		t.Fatal(err)
	}
	for res.Status == "queued" || res.Status == "in_progress" {
		if res, err = service.Get(ctx, res.ID, responses.ResponseGetParams{}); err != nil {
			t.Fatal(err)
		}
	}
	if res.Status != "failed" || res.Error.Code != "rate_limit_exceeded" || res.Error.Message != "slow down" {
		t.Errorf("%+v", res)
	}
	if n := w.counts(t); n.Requests != 4 || n.Lookups < 6 {
		t.Errorf("%+v", n)
	}
}
