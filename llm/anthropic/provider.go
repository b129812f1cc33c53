package anthropic

import (
	"context"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// BaseURL is Anthropic's own server.
const BaseURL = "https://api.anthropic.com"

// version is the dated version of the API that the decoder was written for.
const version = "2023-06-01"

// defaultMaxTokens is sent for a request without a limit: the endpoint wants one.
const defaultMaxTokens = 4096

// Config says which server is called.
type Config struct {
	BaseURL string // an origin, as in Anthropic's own clients; a gateway may have a path in front of /v1
	APIKey  string // sent as x-api-key when not empty
	Name    string // the provider's word in the ledger, "anthropic" when empty
	HTTP    llm.TransportConfig
	Timeout time.Duration // of a whole call; 0: as long as the context allows. Its end is an ambiguous failure

	// Stream asks for the answer as it is made, so that a call that stands still is told from one that works; see the
	// limits in HTTP.
	Stream bool

	// Recovery is how a lost answer is found: by key alone, where a gateway in front documents one. Anthropic does not.
	Recovery llm.RecoveryConfig
}

// Provider is an llm.Provider, safe for concurrent use.
type Provider struct{ *llm.Endpoint }

var _ llm.Recoverer = (*Provider)(nil)

// New checks cfg; it sends nothing.
func New(cfg Config) (*Provider, error) {
	endpoint, err := llm.NewEndpoint(llm.EndpointConfig{
		Adapter: "anthropic", Name: cfg.Name, BaseURL: cfg.BaseURL, Path: "/v1/messages",
		APIKey: cfg.APIKey, HTTP: cfg.HTTP, Timeout: cfg.Timeout, Stream: cfg.Stream,
		Recovery: cfg.Recovery, Recoveries: []llm.Recovery{llm.RecoverKey},
	})
	if err != nil {
		return nil, err
	}
	return &Provider{endpoint}, nil
}

// Call sends one request and judges its answer.
func (p *Provider) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	header, f := p.Keyed(ctx, req)
	if f != nil {
		return llm.Answer{}, f
	}
	return p.send(ctx, req, header)
}

// Recover sends the same request under the key of the lost one, where a key was declared.
func (p *Provider) Recover(ctx context.Context, req llm.Request, lost llm.Lost) (llm.Answer, error) {
	if !p.Recovers() {
		return llm.Answer{}, llm.NoTrace("no way to recover was declared", llm.Report{})
	}
	return p.RecoverKeyed(lost, func(key http.Header) (llm.Answer, error) { return p.send(ctx, req, key) })
}

func (p *Provider) send(ctx context.Context, req llm.Request, header http.Header) (llm.Answer, error) {
	body, err := encode(req, p.Stream)
	if err != nil {
		return llm.Answer{}, llm.Unsendable(err)
	}
	header["Anthropic-Version"] = []string{version}
	if p.Key != "" {
		header["X-Api-Key"] = []string{string(p.Key)}
	}
	hide := p.Hide(req)
	parts := assembly{told: req.Text}
	resp, wire, f := p.Post(ctx, req, body, header, parts.take)
	switch {
	case resp.Streamed:
		return parts.answer(resp, wire, f, hide...)
	case f != nil:
		return llm.Answer{}, f
	case resp.Status < 200 || resp.Status > 299:
		return llm.Answer{}, llm.Refused(resp, wire, hide...)
	}
	return decodeMessage(resp, wire, hide...)
}
