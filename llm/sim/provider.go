package sim

import (
	"context"
	"net/http"
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
	c := call{model: req.Model, content: llm.CleanText(req.Content)}
	c.input = tokens(len(c.content) + len(req.System))
	if req.MaxOutputTokens != nil {
		c.limit = int64(*req.MaxOutputTokens)
	}
	e, r := p.s.begin(c, headers{TraceParent: req.TraceParent})
	rep := say(c, &r)
	in, out := billed(rep, &r)
	p.s.wait(ctx, time.Duration(r.Latency))
	if r.Do == doHang {
		p.s.hang(ctx)
	}
	status := r.Status
	if status == 0 && (r.Do == doAnswer || r.Do == doEmpty || r.Do == doGarbage) {
		status = http.StatusOK
	}
	p.s.note(p.s.ledger.end(e, r.Do, status, ctx.Err() != nil, in, out))
	if ctx.Err() != nil {
		return llm.Answer{}, llm.Interrupted(ctx, true)
	}

	report := llm.Report{WireRequests: 1, RequestID: completionID(e.N), Model: req.Model}
	_, raw := r.rawBody()
	switch {
	case r.Do == doStatus, r.Do == doAnswer && status >= 300:
		return llm.Answer{}, p.refused(&r, status, e.N)
	case (r.Do == doAnswer || r.Do == doEmpty) && !raw:
		report.Usage = &llm.Usage{InputTokens: rep.input, OutputTokens: rep.output}
		return llm.Finish(rep.finish, rep.text, report)
	}
	return llm.Answer{}, llm.Unfit("the simulated answer was lost: "+r.Do, report, nil)
}

func (p provider) refused(r *rule, status int, n int64) *llm.Failure {
	resp := llm.Response{Status: status, Header: http.Header{}}
	resp.Header.Set("X-Request-Id", completionID(n))
	for k, v := range r.Headers {
		resp.Header.Set(k, v)
	}
	var ok bool
	if resp.Body, ok = r.rawBody(); !ok {
		resp.Body = errorBody(status, "simulated status")
	}
	return llm.Refused(resp, llm.Wire{Requests: 1})
}
