package openai

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/llm"
)

// Profile says what a server that speaks one of these APIs can do, as its own documents have it. The operator declares
// it: an answer shows nothing, since servers accept the parameters they ignore.
type Profile struct {
	Name  string
	About string // one line for a list

	LegacyMaxTokens bool // a limit is sent as max_tokens: max_completion_tokens is not known
	NoStreamUsage   bool // stream_options are refused: the usage of a streamed answer stays unknown

	NoResponses bool           // there is no Responses API
	Recovery    []llm.Recovery // ways to recover that may be declared besides none; nil: any
}

// Profiles lists the known ones. "compatible" promises nothing and forbids nothing.
var Profiles = []Profile{
	{Name: "openai", About: "OpenAI itself: stored completions, background responses, no idempotency key",
		Recovery: []llm.Recovery{llm.RecoverStored, llm.RecoverBackground}},
	{Name: "compatible", About: "any other server, as its operator knows it"},
	{Name: "vllm", About: "vLLM; responses can be looked up only with its store switched on, which a restart empties",
		Recovery: []llm.Recovery{llm.RecoverBackground}},
	{Name: "ollama", About: "Ollama: keeps nothing", LegacyMaxTokens: true, Recovery: []llm.Recovery{}},
	{Name: "llama.cpp", About: "llama.cpp's server: keeps nothing", LegacyMaxTokens: true, NoResponses: true, Recovery: []llm.Recovery{}},
	{Name: "openrouter", About: "OpenRouter: reports a lost call's cost by its id, but not its answer", Recovery: []llm.Recovery{}},
	{Name: "litellm", About: "LiteLLM's proxy; background responses where its operator has them kept",
		Recovery: []llm.Recovery{llm.RecoverBackground}},
}

// ProfileNamed returns a known profile. The error lists them all.
func ProfileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("openai: there is no profile %q, only %s", name, strings.Join(names, ", "))
}

// allows refuses a way to recover that the server is known not to have.
func (p Profile) allows(way llm.Recovery) error {
	if way == llm.RecoverNone || p.Recovery == nil || slices.Contains(p.Recovery, way) {
		return nil
	}
	return fmt.Errorf("openai: recovery by %q is nothing that a server of profile %s documents", string(way), p.Name)
}
