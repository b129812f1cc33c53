package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// Provider returns the model in process, without HTTP: the same rules, the same ledger. It is for benchmarks and
// simulations; what is to be shown about the wire is shown over the wire.
func (s *Server) Provider() llm.Provider { return provider{s} }

type provider struct{ s *Server }

// Name is "sim".
func (provider) Name() string { return "sim" }

// Call does what the rules say, as an adapter on the other side of a connection would see it.
func (p provider) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	if ctx.Err() != nil {
		return llm.Answer{}, llm.Interrupted(ctx, false)
	}
	c := call{model: req.Model}
	size := 0
	if chat := req.Chat; chat != nil {
		body, err := json.Marshal(map[string]any{"model": req.Model, "messages": chat.Messages})
		if err == nil {
			c, err = parseChat(body)
		}
		if err != nil {
			return llm.Answer{}, llm.Unsendable(err)
		}
		c.params = chat.Params
	} else {
		c.hear("system", llm.CleanText(req.System), &size)
		for _, m := range req.History {
			c.hear(string(m.Role), llm.CleanText(m.Text), &size)
		}
		c.hear("user", llm.CleanText(req.Content), &size)
		c.input = tokens(size)
	}
	if req.MaxOutputTokens != nil {
		c.limit = int64(*req.MaxOutputTokens)
	}
	g := p.s.begin(completions, c, headers{TraceParent: req.TraceParent})
	r, rep, act := &g.rule, &g.rep, g.rule.action()
	p.s.wait(ctx, time.Duration(r.Latency))
	if r.Do == doHang || r.Do == doStall {
		p.s.hang(ctx)
	}
	status := r.Status
	if status == 0 && (!act.lost || r.Do == doGarbage) {
		status = http.StatusOK
	}
	in, out := billed(*rep, r)
	p.s.note(p.s.ledger.end(g.e, r.Do, status, ctx.Err() != nil, in, out))
	if ctx.Err() != nil {
		return llm.Answer{}, llm.Interrupted(ctx, true)
	}

	report := llm.Report{WireRequests: 1, RequestID: g.id, Model: req.Model}
	_, raw := r.rawBody()
	switch {
	case r.Do == doStatus, r.Do == doAnswer && status >= 300:
		return llm.Answer{}, p.refused(r, status, g.id)
	case act.lost || raw:
		return llm.Answer{}, llm.Unfit("the simulated answer was lost: "+r.Do, report, nil)
	}
	if !rep.noUsage {
		report.Usage = &llm.Usage{
			InputTokens: rep.input - rep.cached - rep.cacheWrite, CachedInputTokens: rep.cached, CacheWriteTokens: rep.cacheWrite,
			OutputTokens: rep.output, ReasoningTokens: rep.reasoning,
		}
	}
	text := strings.ReplaceAll(rep.text, badMark, "\x00\xff\xfe")
	if req.Text != nil {
		for piece := range split(llm.CleanText(text)) {
			req.Text(piece)
		}
	}
	word := rep.reason(inProcessReasons)
	if word == nil {
		return llm.Finish("", text, report)
	}
	if req.Chat.OffersTools() && len(rep.calls) > 0 {
		calls := make([]json.RawMessage, len(rep.calls))
		for i, c := range rep.calls {
			calls[i], _ = json.Marshal(c) // texts have a JSON form
		}
		return llm.FinishCalls(*word, text, calls, report)
	}
	return llm.Finish(*word, text, report)
}

// inProcessReasons are those of Chat Completions, where a refusal stands beside the reason.
var inProcessReasons = map[string]string{"stop": "stop", "length": "length", "refusal": "refusal", "tool": "tool_calls"}

func (p provider) refused(r *rule, status int, id string) *llm.Failure {
	resp := llm.Response{Status: status, Header: http.Header{}}
	resp.Header.Set("X-Request-Id", id)
	for k, v := range r.Headers {
		resp.Header.Set(k, v)
	}
	var ok bool
	if resp.Body, ok = r.rawBody(); !ok {
		resp.Body = errorBody(status, "simulated status")
	}
	return llm.Refused(resp, llm.Wire{Requests: 1})
}
