package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestMaskedShowsNoPassword(t *testing.T) {
	for raw, want := range map[string]string{
		"postgres://app:hunter2@db:5432/app?sslmode=disable":    "postgres://app:***@db:5432/app?sslmode=disable",
		"postgres://app@db/app":                                 "postgres://app@db/app",
		"postgres://app:hunter2@db/app?sslpassword=hunter2&a=b": "postgres://app:***@db/app?sslpassword=***&a=b",
		"postgres://db/app?user=app&password=hunter2":           "postgres://db/app?user=app&password=***",
		"host=db user=app password=hunter2 dbname=app":          "host=db user=app password=*** dbname=app",
		`host=db password='hunter2 with \' quote' dbname=app`:   "host=db password=*** dbname=app",
		"host=db PASSWORD = hunter2":                            "host=db PASSWORD=***",
		"postgres://app:hunter2%zz@db/app":                      "***", // cannot be read
		"postgres://app:hunter2@db:port/app":                    "***",
		"postgres://app:hun@ter2@db/app":                        "postgres://app:***@db/app",
	} {
		if got := Masked(raw); got != want {
			t.Errorf("Masked(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestColor(t *testing.T) {
	for _, tt := range []struct {
		tty  bool
		env  map[string]string
		want bool
	}{
		{true, nil, true},
		{false, nil, false},
		{true, map[string]string{"NO_COLOR": "1"}, false},
		{true, map[string]string{"NO_COLOR": ""}, true},
		{true, map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, false},
		{false, map[string]string{"CLICOLOR_FORCE": "1"}, true},
		{false, map[string]string{"CLICOLOR_FORCE": "0"}, false},
		{true, map[string]string{"CLICOLOR": "0"}, false},
		{true, map[string]string{"TERM": "dumb"}, false},
	} {
		got := color(tt.tty, func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
		if got != tt.want {
			t.Errorf("tty %v, %v: %v", tt.tty, tt.env, got)
		}
	}
}

func TestExitCodesAndReport(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int
		text string
	}{
		{nil, OK, ""},
		{errors.New("broken"), Failed, "Error: broken\n"},
		{fmt.Errorf("outer: %w", Refuse("do this", "not yet")), Refused, "Error: outer: not yet\nHint: do this\n"},
		{Usage("", "wrong %q", "word"), Misuse, "Error: wrong \"word\"\n"},
		{context.Canceled, Misuse, "Error: context canceled\n"},
	} {
		var b bytes.Buffer
		Report(&b, tt.err)
		if ExitCode(tt.err) != tt.code || b.String() != tt.text {
			t.Errorf("%v: code %d, report %q", tt.err, ExitCode(tt.err), b.String())
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"kafka-brokers", "kafka-topic", "lease", "listen"}
	for word, want := range map[string]string{"kafka-broker": "kafka-brokers", "leese": "lease", "zzz": "", "": ""} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

type thing struct {
	Name  string  `json:"name"`
	Count int     `json:"count"`
	Text  *string `json:"text"`
}

var thingColumns = []Column[thing]{
	{Title: "NAME", Text: func(x thing) string { return x.Name }},
	{Title: "COUNT", Wide: true, Text: func(x thing) string { return Number(x.Count) }},
	{Title: "TEXT", Text: func(x thing) string {
		if x.Text == nil {
			return ""
		}
		return *x.Text
	}},
}

func TestFormats(t *testing.T) {
	text := "no: \x1b[31mred\x1b[0m\nand <b>\ttabs"
	things := []thing{{"a", 1, &text}, {"yes", 2, nil}}
	for format, want := range map[Format]string{
		Table: "NAME  TEXT\na     no:  [31mred [0m and <b> tabs\nyes   -\n",
		Wide:  "NAME  COUNT  TEXT\na     1      no:  [31mred [0m and <b> tabs\nyes   2      -\n",
		JSON: `{
  "things": [
    {
      "name": "a",
      "count": 1,
      "text": "no: \u001b[31mred\u001b[0m\nand <b>\ttabs"
    },
    {
      "name": "yes",
      "count": 2,
      "text": null
    }
  ]
}
`,
		JSONL: `{"name":"a","count":1,"text":"no: \u001b[31mred\u001b[0m\nand <b>\ttabs"}` + "\n" + `{"name":"yes","count":2,"text":null}` + "\n",
		YAML: `things:
  - name: a
    count: 1
    text: "no: \e[31mred\e[0m\nand <b>\ttabs"
  - name: "yes"
    count: 2
    text: null
`,
	} {
		var b bytes.Buffer
		if err := List(&b, format, "things", things, thingColumns); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s:\n%s", format, diff)
		}
	}
	var b bytes.Buffer
	if err := List[thing](&b, JSON, "things", nil, thingColumns); err != nil || b.String() != "{\n  \"things\": []\n}\n" {
		t.Errorf("an empty list is %q, %v", b.String(), err)
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	none := func(string) (string, bool) { return "", false }
	if v, s, err := Secret("llm-api-key", write("key", " sk-1\n"), none); v != "sk-1" || s.Value != mask || err != nil {
		t.Errorf("%q %+v %v", v, s, err)
	}
	for _, path := range []string{write("empty", "\n"), dir, filepath.Join(dir, "missing"), write("large", strings.Repeat("x", maxFile+1))} {
		if v, _, err := Secret("llm-api-key", path, none); v != "" || ExitCode(err) != Misuse {
			t.Errorf("%s: %q, %v", path, v, err)
		}
	}
	env := func(name string) (string, bool) { return "sk-2", name == "FENCEPOST_LLM_API_KEY" }
	if v, _, err := Secret("llm-api-key", filepath.Join(dir, "missing"), env); v != "sk-2" || err != nil {
		t.Errorf("the environment wins: %q, %v", v, err)
	}
}

// TestPlainFlagsAreNotSettings: what belongs to one call is not taken from the environment.
func TestPlainFlagsAreNotSettings(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	workspace := flags.String("workspace", "", "")
	var lease string
	Settings(flags, func(f *pflag.FlagSet) { f.StringVar(&lease, "lease", "20s", "") })
	list, err := Load(flags, []string{"lease"}, func(string) (string, bool) { return "from-env", true }, "")
	if err != nil {
		t.Fatal(err)
	}
	if *workspace != "" || lease != "from-env" || len(list) != 1 {
		t.Errorf("workspace %q, lease %q, settings %+v", *workspace, lease, list)
	}
}
