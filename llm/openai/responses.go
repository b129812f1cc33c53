package openai

import (
	"context"
	"net/http"

	"github.com/fencepost/fencepost/llm"
)

// Responses calls the Responses API. It is safe for concurrent use.
type Responses struct{ *llm.Endpoint }

var _ llm.Recoverer = (*Responses)(nil)

const responsesPath = "/responses"

// NewResponses checks cfg; it sends nothing.
func NewResponses(cfg Config) (*Responses, error) {
	endpoint, err := cfg.endpoint(responsesPath, llm.RecoverBackground, llm.RecoverKey)
	if err != nil {
		return nil, err
	}
	if cfg.Profile.NoResponses {
		return nil, errNoResponses
	}
	return &Responses{endpoint}, nil
}

// Call sends one request for an answer, and judges that. A response in the background is followed to its end, over as many
// connections as it takes.
func (r *Responses) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	if r.Recovery.Kind == llm.RecoverBackground {
		return r.background(ctx, req)
	}
	header, f := r.Keyed(ctx, req)
	if f != nil {
		return llm.Answer{}, f
	}
	return r.foreground(ctx, req, header)
}

// Recover looks for the answer of a lost call in the way that was declared.
func (r *Responses) Recover(ctx context.Context, req llm.Request, lost llm.Lost) (llm.Answer, error) {
	switch r.Recovery.Kind {
	case llm.RecoverBackground:
		return r.recoverBackground(ctx, req, lost)
	case llm.RecoverKey:
		return r.RecoverKeyed(lost, func(key http.Header) (llm.Answer, error) { return r.foreground(ctx, req, key) })
	}
	return llm.Answer{}, llm.NoTrace("no way to recover was declared", llm.Report{})
}

func (r *Responses) foreground(ctx context.Context, req llm.Request, header http.Header) (llm.Answer, error) {
	body, err := encodeResponse(req, r.Stream, false)
	if err != nil {
		return llm.Answer{}, llm.Unsendable(err)
	}
	hide := r.Hide(req)
	parts := events{told: req.Text}
	resp, wire, f := r.Post(ctx, req, body, bearer(r.Endpoint, header), parts.take)
	report := llm.Report{WireRequests: wire.Requests, RequestID: llm.RequestID(resp.Header)}
	switch {
	case resp.Streamed:
		return parts.answer(resp.Status, report, f, hide...)
	case f != nil:
		return llm.Answer{}, f
	case resp.Status < 200 || resp.Status > 299:
		return llm.Answer{}, llm.Refused(resp, wire, hide...)
	}
	_, answer, err := decodeResponse(resp.Body, resp.Status, report, hide...)
	return answer, err
}
