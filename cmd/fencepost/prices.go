package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/llm"
)

// prices are the built-in ones, behind those of the operator's file.
func (l *llmSettings) prices() (*llm.Prices, error) {
	list := llm.ListPrices()
	if l.pricesFile == "" {
		return list, nil
	}
	f, err := os.Open(l.pricesFile)
	if err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			err = fmt.Errorf("%s: %w", pe.Path, pe.Err)
		}
		return nil, cli.Usage("", "--prices-file: %v", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if list, err = list.Override(f); err != nil {
		return nil, cli.Usage("", "--prices-file: %s: %v", l.pricesFile, err)
	}
	return list, nil
}

// compatible names servers that speak OpenAI's language and are not known. Their models may bear the names of OpenAI's
// and cost something else, so that the list prices must not be theirs.
const compatible = "openai-compatible"

// providerAt is the provider's word in the ledger and in the price table, by the host that is called.
func providerAt(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return compatible
	}
	for host, name := range map[string]string{
		"api.openai.com": "openai", "api.deepseek.com": "deepseek", "api.groq.com": "groq", "api.mistral.ai": "mistral", "api.x.ai": "xai",
	} {
		// Regions have names below it.
		if h := strings.ToLower(u.Hostname()); h == host || strings.HasSuffix(h, "."+host) {
			return name
		}
	}
	return compatible
}
