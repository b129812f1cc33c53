package openai

import (
	"context"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// Config says which server is called.
type Config struct {
	BaseURL string // ends in /v1, as in OpenAI's own clients
	APIKey  string // sent as a bearer token when not empty
	Name    string // the provider's word in the ledger, "openai" when empty
	HTTP    llm.TransportConfig
	Timeout time.Duration // of a whole call; 0: as long as the context allows. Its end is an ambiguous failure

	// LegacyMaxTokens sends a limit as max_tokens, for servers that do not know max_completion_tokens.
	LegacyMaxTokens bool

	// Stream asks for the answer as it is made, so that a call that stands still is told from one that works; see the
	// limits in HTTP. An answer that is not a stream all the same is taken as it is.
	Stream bool
}

// Provider is an llm.Provider, safe for concurrent use.
type Provider struct {
	*llm.Endpoint
	legacy bool
}

var _ llm.Provider = (*Provider)(nil)

// New checks cfg; it sends nothing.
func New(cfg Config) (*Provider, error) {
	endpoint, err := llm.NewEndpoint(llm.EndpointConfig{
		Adapter: "openai", Name: cfg.Name, BaseURL: cfg.BaseURL, BaseIsV1: true, Path: "/chat/completions",
		APIKey: cfg.APIKey, HTTP: cfg.HTTP, Timeout: cfg.Timeout, Stream: cfg.Stream,
	})
	if err != nil {
		return nil, err
	}
	return &Provider{Endpoint: endpoint, legacy: cfg.LegacyMaxTokens}, nil
}

// Call sends one request and judges its answer.
func (p *Provider) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	body, err := encode(req, p.legacy, p.Stream)
	if err != nil {
		return llm.Answer{}, &llm.Failure{Class: llm.Permanent, Message: "the request cannot be made", Err: err}
	}
	header := http.Header{}
	if p.Key != "" {
		header["Authorization"] = []string{"Bearer " + string(p.Key)}
	}
	hide := p.Hide(req)
	var parts assembly
	resp, wire, f := p.Post(ctx, req, body, header, parts.take)
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
	return decodeAnswer(resp, wire, hide...)
}
