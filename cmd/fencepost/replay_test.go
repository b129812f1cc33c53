package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// typed runs a command line of somebody who answers with a word, at a terminal or not.
func typed(t *testing.T, url, answer string, terminal bool, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	streams := &cli.Streams{In: strings.NewReader(answer), Out: &out, Err: &errs, InTTY: terminal, ErrTTY: terminal, OutTTY: terminal,
		LookupEnv: func(name string) (string, bool) {
			if name != "FENCEPOST_POSTGRES_URL" {
				return "", false
			}
			return url, true
		}}
	err := execute(t.Context(), streams, args)
	cli.Report(&errs, err)
	return cli.ExitCode(err), out.String(), errs.String()
}

type retried struct {
	Tasks, Will map[string]int64
	Cost        struct {
		Amount  *string
		Unknown int64 `json:"unknown_tasks"`
	}
	Executed struct {
		ID      uuid.UUID
		Reason  string
		Rearmed int64
		Resumed bool
		Done    bool
	}
}

func retry(t *testing.T, url string, want int, args ...string) (r retried, stderr string) {
	t.Helper()
	code, out, stderr := typed(t, url, "", false, append([]string{"tasks", "retry", "-o", "json"}, args...)...)
	if code != want {
		t.Fatalf("%v: code %d, want %d: %s%s", args, code, want, out, stderr)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r, stderr
}

func TestI5_RetryPlansFirstAndGoesOnUntilEachTaskHasOneNewBudget(t *testing.T) {
	// Two are completed for 10 and 30 picodollars, and five have failed.
	url, _ := ledgerOf(t, map[string]int64{"a": 10, "b": 30, "f1": -1, "f2": -1, "f3": -1, "f4": -1, "f5": -1})
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	failed := func() (list []tasks.Task) {
		t.Helper()
		list, err := store.Tasks(t.Context(), tasks.Filter{Status: tasks.StatusFailed})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	all := []string{"--status", "failed", "--class", "ambiguous", "--since", "1h", "--workspace", "w"}
	plan, errs := retry(t, url, 0, all...)
	if plan.Tasks["failed"] != 5 || plan.Will["rearm"] != 5 || plan.Cost.Unknown != 5 || plan.Cost.Amount != nil || len(failed()) != 5 {
		t.Fatalf("%+v", plan)
	}
	if !strings.Contains(errs, "--execute --reason") {
		t.Errorf("no word of how to go on: %s", errs)
	}
	if none, _ := retry(t, url, 0, "--status", "failed", "--class", "quota"); none.Will["rearm"] != 0 {
		t.Errorf("%+v", none)
	}
	execute := append(all, "--execute", "--reason", "they are back", "--yes")
	first, errs := retry(t, url, cli.Partly, append(execute, "--max", "2")...)
	if first.Executed.Rearmed != 2 || first.Executed.Done || len(failed()) != 3 || !strings.Contains(errs, "the same command goes on") {
		t.Fatalf("%+v, %d are failed: %s", first, len(failed()), errs)
	}
	if rest, errs := retry(t, url, 0, all...); rest.Will["rearm"] != 3 || !strings.Contains(errs, first.Executed.ID.String()) {
		t.Fatalf("%+v: %s", rest, errs)
	}
	second, _ := retry(t, url, 0, append(execute, "--max-attempts", "2")...)
	if second.Executed.ID != first.Executed.ID || second.Executed.Rearmed != 5 || !second.Executed.Resumed || !second.Executed.Done || len(failed()) != 0 {
		t.Fatalf("%+v", second)
	}
	queued, err := store.Tasks(t.Context(), tasks.Filter{Status: tasks.StatusQueued})
	if err != nil || len(queued) != 5 {
		t.Fatalf("%d queued, %v", len(queued), err)
	}
	budgets := map[int]int{}
	for _, task := range queued {
		budgets[task.MaxAttempts]++
	}
	if budgets[3+5] != 2 || budgets[3+2] != 3 {
		t.Errorf("budgets %v", budgets)
	}
	if none, errs := retry(t, url, 0, execute...); none.Will["rearm"] != 0 || !strings.Contains(errs, "nothing to do") {
		t.Errorf("%+v: %s", none, errs)
	}
}

func TestRetryOfIDsEstimatesWhatItWouldCost(t *testing.T) {
	url, _ := ledgerOf(t, map[string]int64{"a": 10, "b": 30, "f": -1})
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	// Answers of which something is known have tokens.
	if _, err := store.Pool().Exec(t.Context(), `update attempts set output_tokens = 7 where picousd is not null`); err != nil {
		t.Fatal(err)
	}
	list, err := store.Tasks(t.Context(), tasks.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"tasks", "retry"}
	for _, task := range list {
		args = append(args, task.ID.String(), strings.ToUpper(task.ID.String()))
	}
	plan, _ := retry(t, url, 0, args[2:]...)
	if plan.Tasks["completed"] != 2 || plan.Will["rearm"] != 1 || plan.Will["skip"] != 2 || plan.Cost.Amount == nil || *plan.Cost.Amount != "0.00000000002" {
		t.Fatalf("%+v, want 20 picodollars", plan)
	}
	args = append(args, "--execute", "--reason", "why")
	// A document is for a program, which is not asked.
	if code, out, errs := typed(t, url, "y\n", true, append(args[:len(args):len(args)], "-o", "json")...); code != cli.Misuse || out != "" {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	for _, c := range []struct {
		answer   string
		terminal bool
		code     int
		says     string
	}{
		{"y\n", false, cli.Misuse, "Nobody can be asked here"},
		{"\n", true, cli.Misuse, "cancelled, nothing was changed"},
		{"", true, cli.Misuse, "cancelled, nothing was changed"},
		{"yes\n", true, cli.OK, "Re-arm 1 tasks, about $0.00000000002, if each is answered once? [y/N]"},
	} {
		code, out, errs := typed(t, url, c.answer, c.terminal, args...)
		if code != c.code || !strings.Contains(errs, c.says) || (code == 0) != strings.Contains(out, "re-armed 1, skipped 2") {
			t.Errorf("%+v: code %d: %s%s", c, code, out, errs)
		}
	}
}
