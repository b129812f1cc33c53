package openai

import (
	"context"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// Config says which server is called, and how.
type Config struct {
	BaseURL string // ends in /v1, as in OpenAI's own clients
	APIKey  string // sent as a bearer token when not empty
	Name    string // the provider's word in the ledger, "openai" when empty
	HTTP    llm.TransportConfig
	Timeout time.Duration // of a whole call; 0: as long as the context allows. Its end is an ambiguous failure
	Profile Profile       // what the server can do; the zero value: everything
	// Stream asks for the answer as it is made, so that a call that stands still is told from one that works; see the
	// limits in HTTP. An answer that is not a stream all the same is taken as it is.
	Stream bool
	// Recovery is how a lost answer is found, as the operator declares it.
	Recovery llm.RecoveryConfig
}

// endpoint checks cfg for the API at path, which has the given ways to recover.
func (cfg Config) endpoint(path string, ways ...llm.Recovery) (*llm.Endpoint, error) {
	e, err := llm.NewEndpoint(llm.EndpointConfig{
		Adapter: "openai", Name: cfg.Name, BaseURL: cfg.BaseURL, BaseIsV1: true, Path: path,
		APIKey: cfg.APIKey, HTTP: cfg.HTTP, Timeout: cfg.Timeout, Stream: cfg.Stream,
		Recovery: cfg.Recovery, Recoveries: ways,
	})
	if err != nil {
		return nil, err
	}
	if err := cfg.Profile.allows(e.Recovery.Kind); err != nil {
		return nil, err
	}
	return e, nil
}

// bearer is the header that carries the key.
func bearer(e *llm.Endpoint, header http.Header) http.Header {
	if e.Key != "" {
		header["Authorization"] = []string{"Bearer " + string(e.Key)}
	}
	return header
}

// Provider calls Chat Completions. It is safe for concurrent use.
type Provider struct {
	*llm.Endpoint
	chat chat
}

var _ llm.Recoverer = (*Provider)(nil)

// New checks cfg; it sends nothing.
func New(cfg Config) (*Provider, error) {
	endpoint, err := cfg.endpoint("/chat/completions", llm.RecoverStored, llm.RecoverKey)
	if err != nil {
		return nil, err
	}
	return &Provider{endpoint, chat{
		legacy: cfg.Profile.LegacyMaxTokens, noUsage: cfg.Profile.NoStreamUsage, stored: endpoint.Recovery.Kind == llm.RecoverStored,
	}}, nil
}

// Call sends one request and judges its answer.
func (p *Provider) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	if p.chat.stored {
		if f := llm.CheckOp(req.Op); f != nil {
			return llm.Answer{}, f
		}
	}
	header, f := p.Keyed(ctx, req)
	if f != nil {
		return llm.Answer{}, f
	}
	return p.send(ctx, req, header)
}

// Recover looks for the answer of a lost call in the way that was declared.
func (p *Provider) Recover(ctx context.Context, req llm.Request, lost llm.Lost) (llm.Answer, error) {
	switch p.Recovery.Kind {
	case llm.RecoverStored:
		return p.recoverStored(ctx, req, lost)
	case llm.RecoverKey:
		return p.RecoverKeyed(lost, func(key http.Header) (llm.Answer, error) { return p.send(ctx, req, key) })
	}
	return llm.Answer{}, llm.NoTrace("no way to recover was declared", llm.Report{})
}

func (p *Provider) send(ctx context.Context, req llm.Request, header http.Header) (llm.Answer, error) {
	body, err := p.chat.encode(req, p.Stream)
	if err != nil {
		return llm.Answer{}, llm.Unsendable(err)
	}
	hide := p.Hide(req)
	parts := assembly{told: req.Text, tools: req.Chat.OffersTools()}
	resp, wire, f := p.Post(ctx, req, body, bearer(p.Endpoint, header), parts.take)
	switch {
	case resp.Streamed:
		return parts.answer(resp, wire, f, hide...)
	case f != nil:
		return llm.Answer{}, f
	case resp.Status < 200 || resp.Status > 299:
		f := llm.Refused(resp, wire, hide...)
		f.Usage = decodeUsage(resp.Body)
		return llm.Answer{}, f
	}
	return decodeAnswer(resp, wire, parts.tools, hide...)
}
