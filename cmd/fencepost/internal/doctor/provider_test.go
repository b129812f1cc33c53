package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
)

func soundProvider(url string) Provider {
	return Provider{Name: "sim", BaseURL: url, Model: "sim-1", Prices: llm.ListPrices()}
}

// TestTheProviderIsConnectedToAndSentNothing: a request could be charged for.
func TestTheProviderIsConnectedToAndSentNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	r := Run(t.Context(), 5*time.Second, ProviderPart(soundProvider(server.URL)))
	server.Close()
	for _, c := range r.Checks {
		if c.State != OK {
			t.Errorf("%+v", c)
		}
	}
	r = Run(t.Context(), 5*time.Second, ProviderPart(soundProvider(server.URL)))
	if c := r.Checks[1]; c.State != Fail || r.Checks[2].State != Unknown {
		t.Errorf("nobody listens: %+v", r.Checks)
	}
}

func TestACertificateThatIsNotTrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is to fail
	server.StartTLS()
	defer server.Close()
	r := Run(t.Context(), 5*time.Second, ProviderPart(soundProvider(server.URL)))
	if r.Checks[1].State != OK || r.Checks[2].State != Fail {
		t.Errorf("%+v", r.Checks)
	}
}

func TestCertificateEnds(t *testing.T) {
	now := time.Now()
	for left, state := range map[time.Duration]State{certificateSoon - time.Hour: Warn, certificateSoon + time.Hour: OK} {
		var f Findings
		judgeCertificate(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: now.Add(left)}}}, now, &f)
		if got := f.checks[0].State; got != state {
			t.Errorf("ends in %s: %s, want %s", left, got, state)
		}
	}
}

func TestProviderFacts(t *testing.T) {
	for _, c := range []struct {
		about  string
		change func(*Provider)
		want
		also []string
	}{
		{"as it should be", func(*Provider) {}, want{"valid", OK}, nil},
		{"refused by run", func(p *Provider) { p.Invalid, p.Hint = errors.New("no"), "do" }, want{"valid", Fail}, nil},
		{"no key where one is needed", func(p *Provider) { p.Name, p.Model = "openai", "gpt-5-mini" }, want{"key", Fail}, nil},
		{"a key in clear", func(p *Provider) { p.Name, p.Key, p.BaseURL = "sim", "env", "http://models.example/v1" }, want{"key", Warn}, nil},
		{"a key in clear on this machine", func(p *Provider) { p.Key, p.BaseURL = "env", "http://[::1]:8000/v1" }, want{"key", OK}, nil},
		{"no model", func(p *Provider) { p.Model = "" }, want{"model", Warn}, []string{"price"}},
		{"a model without a price", func(p *Provider) { p.Model = "nobody-knows-1" }, want{"price", Warn}, nil},
	} {
		t.Run(c.about, func(t *testing.T) {
			p := soundProvider("https://models.example")
			c.change(&p)
			verdicts(t, func(f *Findings) { judgeProvider(p, f) }, []string{"valid", "key", "model", "price"}, c.want, c.also...)
		})
	}
}
