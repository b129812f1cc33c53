package sdk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The README's examples are run as they stand there, and all of them get the one answer of one call to the model.
func TestReadme(t *testing.T) {
	python := installed(t, "venv/bin/python")
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n### With OpenAI's SDKs\n")
	if !ok {
		t.Fatal("the README has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	d := startDev(t)
	base := d.API + "/v1"

	export := block(t, section, "sh", "export")
	if want := "export OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=fp_…\n"; export != want {
		t.Errorf("what run sets is not what the README says: %q", export)
	}
	out, err := run(t, d, base, "sh", "-c", block(t, section, "sh", "curl"))
	if err != nil {
		t.Fatal(err)
	}
	var completion struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(out, &completion); err != nil || len(completion.Choices) != 1 || completion.Choices[0].Message.Content == "" {
		t.Fatalf("curl: %v, %s", err, out)
	}
	text := completion.Choices[0].Message.Content

	typescript := file(t, "readme.mts", block(t, section, "ts", "import"))
	if out, err := run(t, d, base, installed(t, "node_modules/.bin/tsc"), "--strict", "--skipLibCheck", "--target", "es2022",
		"--module", "nodenext", "--types", "node", "--typeRoots", installed(t, "node_modules/@types"), typescript); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, command := range [][]string{
		{python, file(t, "readme.py", block(t, section, "python", "from"))},
		{"node", strings.TrimSuffix(typescript, ".mts") + ".mjs"},
	} {
		out, err := run(t, d, base, command...)
		if err != nil {
			t.Error(err)
		} else if want := text + "\n" + text; string(out) != want {
			t.Errorf("%s prints %q, want %q", command[1], out, want)
		}
	}
	if counts := d.calls(); len(counts) != 1 || counts["Hello!"] != 1 {
		t.Errorf("the model was called: %v", counts)
	}
}

// block is the first code block of the section in the language that begins with a word.
func block(t *testing.T, section, language, word string) string {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(section, -1) {
		if strings.HasPrefix(m[1], word) {
			return m[1]
		}
	}
	t.Fatalf("the section has no block in %s that begins with %s", language, word)
	return ""
}

// file writes a program beside the packages, where Node looks for them.
func file(t *testing.T, name, source string) string {
	t.Helper()
	path := filepath.Join(installed(t, ""), name)
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
