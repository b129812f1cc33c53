package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrTimeout is the cause of a call that lasted longer than EndpointConfig.Timeout.
var ErrTimeout = errors.New("the call's timeout passed")

// EndpointConfig says which address is called, and how. It is what the adapters' own configurations come to.
type EndpointConfig struct {
	Adapter  string // names the adapter in errors
	Name     string // the provider's word in the ledger; Adapter when empty
	BaseURL  string
	BaseIsV1 bool   // the base URL ends in /v1, as in OpenAI's own clients; else it must not
	Path     string // behind the base URL
	APIKey   string
	HTTP     TransportConfig
	Timeout  time.Duration // of a whole call; 0: as long as the context allows. Its end is an ambiguous failure
	// Stream asks for the answer as it is made, so that a call that stands still is told from one that works; see the
	// limits in HTTP.
	Stream bool

	Recovery   RecoveryConfig
	Recoveries []Recovery // the ways that the adapter has
}

// Endpoint is what adapters that post JSON to one address have in common. It is safe for concurrent use, and never shows
// its key.
type Endpoint struct {
	// Key is sent by the adapter, in the header that its provider wants.
	Key Secret
	// Stream is EndpointConfig.Stream.
	Stream bool
	// Recovery is EndpointConfig.Recovery with its defaults.
	Recovery RecoveryConfig

	name    string
	base    string
	url     string
	timeout time.Duration
	client  *Client
}

// NewEndpoint checks cfg; it sends nothing.
func NewEndpoint(cfg EndpointConfig) (*Endpoint, error) {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil: // its text repeats the URL, which may hold a password
		return nil, fmt.Errorf("%s: the base URL cannot be read", cfg.Adapter)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, fmt.Errorf("%s: the base URL must begin with http:// or https:// and name a host", cfg.Adapter)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("%s: the base URL must hold no user, query or fragment", cfg.Adapter)
	}
	base := strings.TrimRight(u.String(), "/")
	switch {
	case cfg.BaseIsV1 && !strings.HasSuffix(base, "/v1"):
		return nil, fmt.Errorf("%s: the base URL must end in /v1, as in %s://%s/v1", cfg.Adapter, u.Scheme, u.Host)
	case !cfg.BaseIsV1 && strings.HasSuffix(base, "/v1"):
		return nil, fmt.Errorf("%s: the base URL must not end in /v1, as in %s://%s", cfg.Adapter, u.Scheme, u.Host)
	case strings.ContainsFunc(cfg.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, fmt.Errorf("%s: the API key holds a space, a line end or another character that no key has", cfg.Adapter)
	}
	if err := cfg.Recovery.Check(cfg.Recoveries...); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Adapter, err)
	}
	if cfg.Name == "" {
		cfg.Name = cfg.Adapter
	}
	recovery := cfg.Recovery.WithDefaults()
	cfg.HTTP.AllowIdempotencyKey = cfg.HTTP.AllowIdempotencyKey || recovery.Kind == RecoverKey
	return &Endpoint{Key: Secret(cfg.APIKey), Stream: cfg.Stream, Recovery: recovery, name: cfg.Name, base: base, url: base + cfg.Path,
		timeout: cfg.Timeout, client: NewClient(cfg.HTTP)}, nil
}

// Recovers reports whether a way to recover was declared.
func (e *Endpoint) Recovers() bool { return e.Recovery.Kind != RecoverNone }

// Asks reports whether that way is by questions alone.
func (e *Endpoint) Asks() bool {
	return e.Recovery.Kind == RecoverStored || e.Recovery.Kind == RecoverBackground
}

// Name returns the provider's word in the ledger.
func (e *Endpoint) Name() string { return e.name }

// Close closes idle connections. Calls under way go on.
func (e *Endpoint) Close() { e.client.Close() }

// String names the provider and its address, never the key.
func (e *Endpoint) String() string { return e.name + " at " + e.url }

// LogValue is String for slog.
func (e *Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

// GoString keeps %#v from looking inside.
func (e *Endpoint) GoString() string { return e.String() }

// Hide lists what no message may repeat: the key and the prompt.
func (e *Endpoint) Hide(req Request) []string {
	hide := []string{string(e.Key), req.Content, req.System}
	for _, m := range req.History {
		hide = append(hide, m.Text)
	}
	return append(hide, req.Chat.hidden()...)
}

// Within gives a call the time it may take altogether. Post does so, too; it is for calls that go on behind it.
func (e *Endpoint) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, e.timeout, ErrTimeout)
}

// Post sends one request. A streamed answer goes to take, event by event; Response.Streamed says so, and what it came to
// is then the adapter's to judge, together with the failure. Any other failure ends the call.
func (e *Endpoint) Post(ctx context.Context, req Request, body []byte, header http.Header, take func(Event) (more bool)) (Response, Wire, *Failure) {
	ctx, cancel := e.Within(ctx)
	defer cancel()
	// The client has its own context, and GetBody would let a layer below send the body twice.
	out, err := http.NewRequest(http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return Response{}, Wire{}, &Failure{Class: Permanent, Message: "the request cannot be made", Err: err}
	}
	out.GetBody = nil
	out.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"fencepost"}}
	if e.Stream {
		out.Header["Accept"] = []string{"text/event-stream, application/json"}
	}
	if IsTraceParent(req.TraceParent) {
		out.Header["Traceparent"] = []string{req.TraceParent}
	}
	maps.Copy(out.Header, header)

	var resp Response
	var wire Wire
	if e.Stream {
		resp, wire, err = e.client.Stream(ctx, out, take)
	} else {
		resp, wire, err = e.client.Do(ctx, out)
	}
	if err == nil {
		return resp, wire, nil
	}
	var f *Failure
	if !errors.As(err, &f) {
		f = &Failure{Class: Ambiguous, Message: "the call failed", Err: err, Report: Report{WireRequests: wire.Requests}}
	}
	if !resp.Streamed && resp.Header != nil {
		f.Status, f.RequestID = resp.Status, RequestID(resp.Header)
	}
	return resp, wire, f
}
