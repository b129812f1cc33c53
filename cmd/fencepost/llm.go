package main

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/anthropic"
	"github.com/fencepost/fencepost/llm/openai"
)

// llmSettings are which model is called and how.
type llmSettings struct {
	provider   *cli.Choice
	api        *cli.Choice
	profile    *cli.Choice
	baseURL    string
	model      string
	apiKeyFile string
	pricesFile string
	stream     bool
	keepAlive  time.Duration
	firstToken time.Duration
	idle       time.Duration

	recovery    *cli.Choice
	keyHeader   string
	retention   time.Duration
	settleDelay time.Duration

	all, each llm.Limit // of the provider, and of each workspace
}

// autoProfile leaves the profile to the address.
const autoProfile = "auto"

// openAIBaseURL is used when nothing else is said, as by OpenAI's own clients.
const openAIBaseURL = "https://api.openai.com/v1"

func (l *llmSettings) flags(f *pflag.FlagSet) {
	l.provider = cli.NewChoice("sim", "openai", "anthropic")
	f.Var(l.provider, "llm-provider", "what is called for answers")
	f.StringVar(&l.baseURL, "llm-base-url", "", "`URL` of the provider: an origin for sim and anthropic, ends in /v1 for openai (default: the provider's own)")
	l.api = cli.NewChoice("chat", "responses")
	f.Var(l.api, "llm-api", "which of OpenAI's interfaces is spoken by openai and sim")
	profiles := []string{autoProfile}
	for _, p := range openai.Profiles {
		profiles = append(profiles, p.Name)
	}
	l.profile = cli.NewChoice(profiles...)
	f.Var(l.profile, "llm-profile", "which server answers at --llm-base-url; auto knows OpenAI's own by its address")
	f.StringVar(&l.model, "llm-model", "", "model of messages that name none (default for sim: sim-1)")
	f.StringVar(&l.apiKeyFile, "llm-api-key-file", "", "`file` with the provider's key; or set FENCEPOST_LLM_API_KEY")
	f.BoolVar(&l.stream, "llm-stream", true, "have answers sent as they are made, so that a call that stands still is given up early")
	f.DurationVar(&l.keepAlive, "llm-keep-alive", 0, "how long a connection to the provider is kept for another call; 0: one for each call")
	f.DurationVar(&l.firstToken, "llm-first-token-timeout", 90*time.Second, "longest silence before a streamed answer begins")
	f.DurationVar(&l.idle, "llm-idle-timeout", time.Minute, "longest silence within a streamed answer")
	f.StringVar(&l.pricesFile, "prices-file", "", "CSV `file` of prices that go before the built-in ones, with the same columns")

	l.recovery = cli.NewChoice(string(llm.RecoverNone), string(llm.RecoverStored), string(llm.RecoverBackground), string(llm.RecoverKey))
	f.Var(l.recovery, "llm-recovery", "how the provider lets a lost answer be found, as its documents say")
	f.StringVar(&l.keyHeader, "llm-idempotency-header", "", "`header` of --llm-recovery idempotency-key (default Idempotency-Key)")
	f.DurationVar(&l.retention, "llm-recovery-retention", 0, "how long the provider keeps what is looked up (default 720h; required for idempotency-key)")
	f.DurationVar(&l.settleDelay, "llm-recovery-settle-delay", 0, "age up to which an answer that is not found may still appear (default by the way of recovery)")

	f.IntVar(&l.all.RequestsPerMinute, "llm-requests-per-minute", 0, "calls of this process in a minute; 0: no limit")
	f.IntVar(&l.all.TokensPerMinute, "llm-tokens-per-minute", 0, "tokens of this process in a minute, in and out; 0: no limit")
	f.IntVar(&l.each.RequestsPerMinute, "llm-workspace-requests-per-minute", 0, "the same for each workspace")
	f.IntVar(&l.each.TokensPerMinute, "llm-workspace-tokens-per-minute", 0, "the same for each workspace")
}

// defaultModel is the model of messages that name none; empty: each has to name one.
func (l *llmSettings) defaultModel() string {
	if l.model == "" && l.provider.String() == "sim" {
		return "sim-1"
	}
	return l.model
}

// ledgerName is the provider's word in the ledger and in the price table.
func (l *llmSettings) ledgerName() string {
	switch l.provider.String() {
	case "openai":
		return providerAt(cmp.Or(l.baseURL, openAIBaseURL))
	case "anthropic":
		// As with OpenAI's language: another server's models may cost something else, and must not get the list prices.
		if u, err := url.Parse(cmp.Or(l.baseURL, anthropic.BaseURL)); err != nil || !strings.EqualFold(u.Hostname(), "api.anthropic.com") {
			return "anthropic-compatible"
		}
	}
	return l.provider.String()
}

// gate is what calls have to pass.
func (l *llmSettings) gate() (*llm.Gate, error) {
	for name, n := range map[string]int{
		"llm-requests-per-minute": l.all.RequestsPerMinute, "llm-tokens-per-minute": l.all.TokensPerMinute,
		"llm-workspace-requests-per-minute": l.each.RequestsPerMinute, "llm-workspace-tokens-per-minute": l.each.TokensPerMinute,
	} {
		if n < 0 {
			return nil, cli.Usage("0 is no limit", "--%s: %d is below 0", name, n)
		}
	}
	return llm.NewGate(llm.GateConfig{Provider: l.all, Workspace: l.each}), nil
}

// open makes the provider.
func (l *llmSettings) open(a *app) (llm.Provider, error) {
	key, _, err := cli.Secret("llm-api-key", l.apiKeyFile, a.LookupEnv)
	if err != nil {
		return nil, err
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"llm-keep-alive", l.keepAlive}, {"llm-first-token-timeout", l.firstToken}, {"llm-idle-timeout", l.idle},
		{"llm-recovery-retention", l.retention}, {"llm-recovery-settle-delay", l.settleDelay},
	} {
		if d.value < 0 {
			return nil, cli.Usage("", "--%s: %s is below 0", d.name, d.value)
		}
	}
	config := openai.Config{
		Name: l.ledgerName(), BaseURL: l.baseURL, APIKey: key,
		HTTP:   llm.TransportConfig{Proxy: http.ProxyFromEnvironment, FirstToken: l.firstToken, Idle: l.idle, KeepAlive: l.keepAlive},
		Stream: l.stream,
		Recovery: llm.RecoveryConfig{
			Kind: llm.Recovery(l.recovery.String()), Header: l.keyHeader, Retention: l.retention, SettleDelay: l.settleDelay,
		},
	}
	switch l.provider.String() {
	case "sim":
		if config.BaseURL, err = l.simBaseURL(); err != nil {
			return nil, err
		}
	case "openai":
		config.BaseURL = cmp.Or(config.BaseURL, openAIBaseURL)
		if key == "" && config.BaseURL == openAIBaseURL {
			return nil, cli.Usage("set "+cli.Env("llm-api-key")+" or --llm-api-key-file", "--llm-provider openai needs an API key")
		}
	case "anthropic":
		return l.openAnthropic(config)
	}
	return l.openOpenAI(config)
}

// simBaseURL is where a simulated model speaks OpenAI's language.
func (l *llmSettings) simBaseURL() (string, error) {
	if l.baseURL == "" {
		return "", cli.Usage("start one with `fencepost llm-sim`, or choose --llm-provider openai", "--llm-base-url (or %s) is missing", cli.Env("llm-base-url"))
	}
	base := strings.TrimRight(l.baseURL, "/")
	switch u, err := url.Parse(base); {
	case err != nil || u.Host == "":
		return "", cli.Usage("for example http://127.0.0.1:8090", "--llm-base-url: %q is not an origin", l.baseURL)
	case u.Path != "":
		return "", cli.Usage("for example http://"+u.Host, "--llm-base-url: sim wants an origin, without the path %q", u.Path)
	}
	return base + "/v1", nil
}

func (l *llmSettings) openOpenAI(c openai.Config) (p llm.Provider, err error) {
	switch name := l.profile.String(); {
	case name != autoProfile:
		if c.Profile, err = openai.ProfileNamed(name); err != nil {
			return nil, cli.Usage("", "--llm-profile: %v", err)
		}
	case c.Name == "openai":
		c.Profile, err = openai.ProfileNamed("openai")
	}
	if err != nil {
		return nil, err
	}
	if l.api.String() == "responses" {
		p, err = openai.NewResponses(c)
	} else {
		p, err = openai.New(c)
	}
	if err != nil {
		return nil, cli.Usage("check --llm-base-url, --llm-profile and --llm-recovery", "%v", err)
	}
	return p, nil
}

func (l *llmSettings) openAnthropic(c openai.Config) (llm.Provider, error) {
	c.BaseURL = cmp.Or(c.BaseURL, anthropic.BaseURL)
	if c.APIKey == "" && c.BaseURL == anthropic.BaseURL {
		return nil, cli.Usage("set "+cli.Env("llm-api-key")+" or --llm-api-key-file", "--llm-provider anthropic needs an API key")
	}
	if l.api.String() != "chat" || l.profile.String() != autoProfile {
		return nil, cli.Usage("leave them out", "--llm-api and --llm-profile are for --llm-provider openai and sim")
	}
	p, err := anthropic.New(anthropic.Config{
		Name: c.Name, BaseURL: c.BaseURL, APIKey: c.APIKey, HTTP: c.HTTP, Stream: c.Stream, Recovery: c.Recovery,
	})
	if err != nil {
		return nil, cli.Usage("check --llm-base-url and --llm-recovery", "%v", err)
	}
	return p, nil
}
