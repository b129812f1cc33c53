package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPromptTemplatesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "templates.yaml")
	read := func(text string) error {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		templates, err := promptTemplates(file)
		if err == nil && templates == nil {
			t.Error("no templates and no error")
		}
		return err
	}
	for _, text := range []string{
		"templates:\n  support: {version: 3, text: \"You answer for ACME. {{document.id}} {{document.version}}\"}\n  support@2: {text: two}\n  support@1.0: {version: \"1.0\", text: one}\n",
		"templates: {}\n",
	} {
		if err := read(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"":                                   "is empty",
		"a: 1":                               "field a not found",
		"templates:\n  support: {text: x}\n": "has no version",
		"templates:\n  support@2: {version: \"3\", text: x}\n":                                  `its version is "3"`,
		"templates:\n  support@2: {text: x}\n":                                                  "has no current version",
		"templates:\n  support: {version: \"2\", text: x}\n  support@2: {text: x}\n":            "twice",
		"templates:\n  support: {version: \"2\", text: x}\n  support: {version: \"3\"}\n":       "already defined",
		"templates:\n  support: {version: \"2\", text: \"{{user}}\"}\n":                         "no placeholder",
		"templates:\n  support: {version: \"2\", text: x, model: y}\n":                          "field model not found",
		"templates: {}\n---\ntemplates: {}\n":                                                   "more than one",
		"templates:\n  support: {version: \"2\", text: \"" + strings.Repeat("x", 9<<20) + "\"}": "is larger",
	} {
		if err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
	if _, err := promptTemplates(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is no error")
	}
	if templates, err := promptTemplates(""); templates != nil || err != nil {
		t.Errorf("without a file: %v, %v", templates, err)
	}
}
