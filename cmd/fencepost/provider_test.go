package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/sim"
)

// What is set is what is called: the endpoint, with the key, streamed or not, under the name whose prices are right.
func TestProviderOfTheSettings(t *testing.T) {
	model, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	var got *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r; model.ServeHTTP(w, r) }))
	defer srv.Close()
	for _, c := range []struct {
		args         []string
		name, path   string
		header, auth string
		stream       bool
	}{
		{[]string{"--llm-base-url", srv.URL}, "sim", "/v1/chat/completions", "Authorization", "Bearer sk-1", true},
		{[]string{"--llm-base-url", srv.URL, "--llm-stream=false"}, "sim", "/v1/chat/completions", "Authorization", "Bearer sk-1", false},
		{[]string{"--llm-provider", "openai", "--llm-base-url", srv.URL + "/v1"}, "openai-compatible", "/v1/chat/completions", "Authorization", "Bearer sk-1", true},
		{[]string{"--llm-provider", "anthropic", "--llm-base-url", srv.URL}, "anthropic-compatible", "/v1/messages", "X-Api-Key", "sk-1", true},
		{[]string{"--llm-provider", "anthropic", "--llm-base-url", srv.URL, "--llm-stream=false"}, "anthropic-compatible", "/v1/messages", "X-Api-Key", "sk-1", false},
		{[]string{"--llm-provider", "anthropic"}, "anthropic", "", "", "", true},
	} {
		var l llmSettings
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		l.flags(f)
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		a := &app{Streams: &cli.Streams{LookupEnv: func(name string) (string, bool) { return "sk-1", name == "FENCEPOST_LLM_API_KEY" }}}
		p, err := l.open(a)
		if err != nil || p.Name() != c.name {
			t.Errorf("%v: %v, %v", c.args, p, err)
			continue
		}
		if c.path == "" {
			continue
		}
		if _, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "c"}); err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		streamed := got.Header.Get("Accept") != "application/json"
		if got.URL.Path != c.path || got.Header.Get(c.header) != c.auth || streamed != c.stream {
			t.Errorf("%v: called %s with %v", c.args, got.URL, got.Header)
		}
	}
	var l llmSettings
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	l.flags(f)
	if err := f.Parse([]string{"--llm-provider", "anthropic"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.open(&app{Streams: &cli.Streams{LookupEnv: func(string) (string, bool) { return "", false }}}); err == nil {
		t.Error("Anthropic's own server without a key")
	}
}
