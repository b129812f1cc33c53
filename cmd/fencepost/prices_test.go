package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fencepost/fencepost/llm"
)

func TestProviderAt(t *testing.T) {
	for url, want := range map[string]string{
		openAIBaseURL: "openai", "https://eu.api.openai.com/v1": "openai", "https://API.OpenAI.com:443/v1": "openai",
		"https://api.x.ai/v1": "xai", "https://api.groq.com/openai/v1": "groq",
		"http://127.0.0.1:8000/v1": compatible, "https://api.openai.com.example.org/v1": compatible, "https://notapi.openai.com/v1": compatible,
		"https://example.org/api.openai.com/v1": compatible, "": compatible, "://": compatible,
	} {
		if got := providerAt(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// A file's rows go before the built-in ones and leave the others as they are.
func TestPricesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.csv")
	rows := "provider,model,input,output,date\nopenai,gpt-5-mini,7,8,2026-12-01\n" + compatible + ",llama,0.5,0.25,2026-12-01\n"
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	prices, err := (&llmSettings{pricesFile: file}).prices()
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[[2]string]int64{
		{"openai", "gpt-5-mini"}: 7_000_000, {"openai", "gpt-5.4"}: 2_500_000, {compatible, "llama"}: 500_000, {"sim", "sim-1"}: 1_000_000,
	} {
		if pico, _, ok := prices.Cost(model[0], model[1], llm.Usage{InputTokens: 1}); !ok || pico != want {
			t.Errorf("%v: %d %v, want %d", model, pico, ok, want)
		}
	}
	if _, _, ok := prices.Cost(compatible, "gpt-5-mini", llm.Usage{InputTokens: 1}); ok {
		t.Error("a server that is not OpenAI's has its prices")
	}
}
