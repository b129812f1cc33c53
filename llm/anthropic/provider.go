package anthropic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
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
}

// Provider is an llm.Provider, safe for concurrent use.
type Provider struct {
	name     string
	endpoint string
	key      llm.Secret
	timeout  time.Duration
	stream   bool
	client   *llm.Client
}

var _ llm.Provider = (*Provider)(nil)

// ErrTimeout is the cause of a call that lasted longer than Config.Timeout.
var ErrTimeout = errors.New("the call's timeout passed")

// New checks cfg; it sends nothing.
func New(cfg Config) (*Provider, error) {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil: // its text repeats the URL, which may hold a password
		return nil, errors.New("anthropic: the base URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("anthropic: the base URL must begin with http:// or https:// and name a host")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("anthropic: the base URL must hold no user, query or fragment")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		return nil, fmt.Errorf("anthropic: the base URL must not end in /v1, as in %s://%s", u.Scheme, u.Host)
	case strings.ContainsFunc(cfg.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("anthropic: the API key holds a space, a line end or another character that no key has")
	}
	if cfg.Name == "" {
		cfg.Name = "anthropic"
	}
	return &Provider{
		name:     cfg.Name,
		endpoint: strings.TrimRight(u.String(), "/") + "/v1/messages",
		key:      llm.Secret(cfg.APIKey),
		timeout:  cfg.Timeout,
		stream:   cfg.Stream,
		client:   llm.NewClient(cfg.HTTP),
	}, nil
}

// Name returns the provider's word in the ledger.
func (p *Provider) Name() string { return p.name }

// Close closes idle connections. Calls under way go on.
func (p *Provider) Close() { p.client.Close() }

// String names the provider and its address, never the key.
func (p *Provider) String() string { return p.name + " at " + p.endpoint }

// LogValue is String for slog.
func (p *Provider) LogValue() slog.Value { return slog.StringValue(p.String()) }

// GoString keeps %#v from looking inside.
func (p *Provider) GoString() string { return p.String() }

// Call sends one request and judges its answer.
func (p *Provider) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.timeout, ErrTimeout)
		defer cancel()
	}
	httpReq, err := p.request(req)
	if err != nil {
		return llm.Answer{}, &llm.Failure{Class: llm.Permanent, Message: "the request cannot be made", Err: err}
	}
	hide := []string{string(p.key), req.Content, req.System}
	var resp llm.Response
	var wire llm.Wire
	var parts assembly
	if p.stream {
		resp, wire, err = p.client.Stream(ctx, httpReq, parts.take)
	} else {
		resp, wire, err = p.client.Do(ctx, httpReq)
	}
	var f *llm.Failure
	errors.As(err, &f)
	switch {
	case resp.Streamed:
		return parts.answer(resp, wire, f, hide...)
	case err != nil:
		if f != nil && resp.Header != nil {
			f.Status, f.RequestID = resp.Status, llm.RequestID(resp.Header)
		}
		return llm.Answer{}, err
	case resp.Status < 200 || resp.Status > 299:
		return llm.Answer{}, llm.Refused(resp, wire, hide...)
	}
	return decodeMessage(resp, wire, hide...)
}

func (p *Provider) request(req llm.Request) (*http.Request, error) {
	body, err := encode(req, p.stream)
	if err != nil {
		return nil, err
	}
	accept := "application/json"
	if p.stream {
		accept = "text/event-stream, application/json"
	}
	// The client has its own context, and GetBody would let a layer below send the body twice.
	out, err := http.NewRequest(http.MethodPost, p.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.GetBody = nil
	out.Header = http.Header{
		"Content-Type":      {"application/json"},
		"Accept":            {accept},
		"User-Agent":        {"fencepost"},
		"Anthropic-Version": {version},
	}
	if p.key != "" {
		out.Header["X-Api-Key"] = []string{string(p.key)}
	}
	if llm.IsTraceParent(req.TraceParent) {
		out.Header["Traceparent"] = []string{req.TraceParent}
	}
	return out, nil
}
