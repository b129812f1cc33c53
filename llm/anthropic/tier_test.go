package anthropic

import (
	"testing"

	"github.com/fencepost/fencepost/llm"
)

func TestServiceTier(t *testing.T) {
	for said, want := range map[string]string{
		`"service_tier":"standard"`: "standard", `"service_tier":"batch"`: "batch", `"service_tier":null`: "", `"x":1`: "", `"service_tier":{}`: "unreadable",
		`"cache_creation":{"ephemeral_5m_input_tokens":9,"ephemeral_1h_input_tokens":0}`:                           "",
		`"cache_creation":{"ephemeral_1h_input_tokens":9}`:                                                         llm.LongCache,
		`"service_tier":"standard","cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":9}`: "standard" + llm.LongCache,
		`"cache_creation":null`: "", `"cache_creation":[]`: "",
	} {
		var u usage
		u.add([]byte(`{"input_tokens":5,"output_tokens":1,` + said + `}`))
		u.add([]byte(`{"output_tokens":7}`)) // the last event of a stream does not repeat it
		if got := u.total(); got == nil || got.Tier != want || got.OutputTokens != 7 {
			t.Errorf("%s: %+v, want %q", said, got, want)
		}
	}
}
