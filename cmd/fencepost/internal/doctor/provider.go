package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// Provider is how the model is called.
type Provider struct {
	// Invalid is why `run` would refuse the settings, and Hint its remedy.
	Invalid error
	Hint    string

	Name    string // of the ledger and of the price table
	BaseURL string // what is called
	Model   string // of messages that name none
	Key     string // where the key comes from; "" without one
	Prices  *llm.Prices
}

// certificateSoon is how long before its end a certificate is worth a word.
const certificateSoon = 14 * 24 * time.Hour

// ProviderPart looks at the provider. It connects and sends nothing: a request could be charged for.
func ProviderPart(p Provider) Part {
	return Part{Name: "provider", Names: []string{"valid", "reachable", "certificate", "key", "model", "price"},
		Look: func(ctx context.Context, f *Findings) {
			judgeProvider(p, f)
			reach(ctx, p, f)
		}}
}

func judgeProvider(p Provider, f *Findings) {
	u, err := url.Parse(p.BaseURL)
	if p.Invalid != nil {
		f.Add("valid", Fail, p.Hint, "%v", p.Invalid)
	} else {
		f.Add("valid", OK, "", "%s at %s", p.Name, p.BaseURL)
	}
	switch {
	case p.Key == "" && (p.Name == "openai" || p.Name == "anthropic"):
		f.Add("key", Fail, "set FENCEPOST_LLM_API_KEY, or --llm-api-key-file", "there is none, and %s wants one", p.Name)
	case p.Key == "" && p.Name == "sim":
		f.Add("key", OK, "", "the simulated model wants none")
	case p.Key == "":
		f.Add("key", OK, "", "there is none; if %s wants one, set FENCEPOST_LLM_API_KEY", p.Name)
	case err == nil && u.Scheme == "http" && !loopback(u.Hostname()):
		f.Add("key", Warn, "use https", "it comes from %s, and goes over the network in clear", p.Key)
	default:
		f.Add("key", OK, "", "it comes from %s; whether the provider takes it, only a call tells", p.Key)
	}
	switch {
	case p.Model == "":
		f.Add("model", Warn, "set --llm-model", "there is no default: a message that names no model is refused")
		f.Add("price", Unknown, "", "no model to look up")
		return
	default:
		f.Add("model", OK, "", "%s", p.Model)
	}
	if p.Prices == nil {
		f.Add("price", Unknown, "", "the price list could not be read")
	} else if _, version, ok := p.Prices.Cost(p.Name, p.Model, llm.Usage{InputTokens: 1, OutputTokens: 1}); ok {
		f.Add("price", OK, "", "%s of %s, as of %s", p.Model, p.Name, version)
	} else {
		f.Add("price", Warn, "name it in --prices-file, as "+p.Name+","+p.Model,
			"%s of %s is not in the price list: costs are unknown, and workspaces with a budget are refused", p.Model, p.Name)
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func reach(ctx context.Context, p Provider, f *Findings) {
	if p.BaseURL == "" || p.Invalid != nil && !usable(p.BaseURL) {
		f.Rest("there is no usable base URL")
		return
	}
	client := llm.NewClient(llm.TransportConfig{Proxy: http.ProxyFromEnvironment})
	defer client.Close()
	began := time.Now()
	state, err := client.Reach(ctx, p.BaseURL)
	var unverified *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unverified), errors.As(err, &invalid):
		f.Add("reachable", OK, "", "something answers at %s", p.BaseURL)
		f.Add("certificate", Fail, "check the host name, this machine's certificate authorities and clock, and what stands between", "%v", err)
	case err != nil:
		f.Add("reachable", Fail, "check --llm-base-url, DNS, the firewall and HTTPS_PROXY; the call goes the same way", "%v", err)
		f.Rest("the provider was not reached")
	default:
		f.Add("reachable", OK, "", "%s, connected in %s; no request was sent", p.BaseURL, time.Since(began).Round(time.Millisecond))
		judgeCertificate(state, time.Now(), f)
	}
}

func usable(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func judgeCertificate(state *tls.ConnectionState, now time.Time, f *Findings) {
	if state == nil || len(state.PeerCertificates) == 0 {
		f.Add("certificate", OK, "", "no TLS")
		return
	}
	end := state.PeerCertificates[0].NotAfter
	if left := end.Sub(now); left < certificateSoon {
		f.Add("certificate", Warn, "have it renewed, or what stands between replaced", "it ends in %d hours, at %s", int(left.Hours()), end.UTC().Format(time.RFC3339))
		return
	}
	f.Add("certificate", OK, "", "good until %s", end.UTC().Format(time.DateOnly))
}
