package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// spent runs the verb, and returns its exit code.
func spent(t *testing.T, url string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	streams := &cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: func(name string) (string, bool) {
		if name != "FENCEPOST_POSTGRES_URL" {
			return "", false
		}
		return url, true
	}}
	err := execute(t.Context(), streams, append([]string{"spend"}, args...))
	cli.Report(&errs, err)
	return cli.ExitCode(err), out.String(), errs.String()
}

func TestI7_Spend(t *testing.T) {
	url, day := ledgerOf(t, map[string]int64{"req-1": 10, "req-2": 20, "lost": -1})
	for _, c := range []struct {
		args           []string
		stdout, stderr string
	}{
		{[]string{"--by", "day"}, "w " + day + " 3 30 0 0.00000000003 1 0 0 0 0", "in all: 3 attempts, USD 0.00000000003; 1 unknown,"},
		{[]string{"--by", "model"}, "w m 1 0 0 - 1 0 0 0 0\nw m-1 2 30 0 0.00000000003 0 0 0 0 0", ""},
		{[]string{"--by", "model", "--limit", "1"}, "w m 1 0 0 - 1 0 0 0 0", "there are more"},
		{[]string{"--by", "conversation", "--workspace", "w", "--to", "2999-01-01"}, "w c 3 30 0 0.00000000003 1 0 0 0 0", ""},
		{[]string{"--by", "document"}, "w - - 3 30 0 0.00000000003 1 0 0 0 0", ""},
		{[]string{"--document", "42"}, "", "in all: 0 attempts, USD 0;"},
		{[]string{"--workspace", "other"}, "", "in all: 0 attempts"},
		{[]string{"--from", "2999-01-01"}, "", "in all: 0 attempts"},
	} {
		code, stdout, stderr := spent(t, url, c.args...)
		var rows []string
		for line := range strings.Lines(stdout) {
			rows = append(rows, strings.Join(strings.Fields(line), " "))
		}
		if code != cli.OK || len(rows) == 0 || strings.Join(rows[1:], "\n") != c.stdout || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
}

func TestSpendForPrograms(t *testing.T) {
	url, day := ledgerOf(t, map[string]int64{"req-1": 10, "lost": -1})
	code, stdout, stderr := spent(t, url, "--by", "model", "-o", "json")
	var got struct {
		By    string
		Spend []struct {
			Workspace, Model string
			Amount           *string
			InputTokens      int64 `json:"input_tokens"`
			UnknownAttempts  int64 `json:"unknown_attempts"`
		}
		Total struct {
			Attempts int64
			Amount   *string
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != cli.OK || len(got.Spend) != 2 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	lost, known := got.Spend[0], got.Spend[1]
	if lost.Workspace != "w" || lost.Model != "m" || lost.Amount != nil || lost.UnknownAttempts != 1 || known.Model != "m-1" ||
		known.Amount == nil || *known.Amount != "0.00000000001" || known.InputTokens != 10 || got.By != "model" || got.Total.Attempts != 2 {
		t.Errorf("%s", stdout)
	}
	_, stdout, _ = spent(t, url, "-o", "csv")
	want := "workspace,day,attempts,input,cached,output,reasoning,usd,unknown,unpriced,not_accepted,not_accepted_usd,replays,saved_usd\n" +
		"w," + day + ",2,10,0,0,0,0.00000000001,1,0,0,0,0,0\n"
	if stdout != want {
		t.Errorf("%q, want %q", stdout, want)
	}
	if _, stdout, _ = spent(t, url, "--document", "42", "-o", "json"); !strings.Contains(stdout, `"spend": []`) {
		t.Errorf("%s", stdout)
	}
}

func TestSpendSaysWhatIsWrong(t *testing.T) {
	empty := pgtest.Empty(t)
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"--by", "worker"}, cli.Misuse, "worker"},
		{[]string{"--from", "2026-11-30T12:00:00Z"}, cli.Misuse, "have to be days"},
		{[]string{"--limit", "0"}, cli.Misuse, "--limit"},
		{[]string{"summary"}, cli.Misuse, `unknown command "summary"`},
		{nil, cli.Refused, "fencepost migrate up"},
	} {
		if code, stdout, stderr := spent(t, empty, c.args...); code != c.code || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
	if _, err := migrations.Up(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := spent(t, empty); code != cli.OK || strings.Count(stdout, "\n") != 1 {
		t.Errorf("nothing spent: exit code %d\n%s", code, stdout)
	}
}
