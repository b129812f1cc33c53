package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// ledgerOf fills a database with an attempt for each answer, by the name of the request; what is negative is unheard of.
// All are of one UTC day, which it returns.
func ledgerOf(t *testing.T, inputs map[string]int64) (url, day string) {
	t.Helper()
	url = pgtest.URL(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for name, input := range inputs {
		id := uuid.Must(uuid.NewV7())
		submitted, err := store.Submit(t.Context(), []tasks.Submission{{
			Workspace: "w", Operation: tasks.OperationMessage, Key: name, Retention: time.Hour, TaskID: id, MessageID: id, Conversation: "c",
			Kind: tasks.KindReply, Request: tasks.Request{Content: "hello", Model: "m"}, MaxAttempts: 3, MaxInterruptions: 3,
			DeadlineAfter: time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
		}})
		if err != nil || submitted[0].Err != nil {
			t.Fatal(submitted, err)
		}
		claimed, err := store.Claim(t.Context(), tasks.Claimer{Worker: "worker", Lease: time.Hour, ParkMax: time.Minute, Provider: "openai"}, []tasks.Ref{{TaskID: id, Workspace: "w"}})
		if err != nil || claimed[0].Work == nil {
			t.Fatal(claimed, err)
		}
		s := tasks.Settlement{
			Assignment: claimed[0].Work.Assignment, Outcome: tasks.OutcomeComplete, Candidate: tasks.Candidate{ReplyID: id, Text: "hi", Model: "m-1"},
			Call: tasks.Call{WireRequests: 1, ProviderRequestID: name, Model: "m-1", InputTokens: &input, OutputTokens: new(int64), PicoUSD: &input},
		}
		if input < 0 {
			s.Outcome, s.Failure.Class, s.Call = tasks.OutcomeFail, "ambiguous", tasks.Call{WireRequests: 1}
		}
		if settled, err := store.Settle(t.Context(), []tasks.Settlement{s}); err != nil || settled[0].Verdict != tasks.VerdictAccepted {
			t.Fatal(settled, err)
		}
		attempts, err := store.Attempts(t.Context(), "w", id)
		if err != nil {
			t.Fatal(err)
		}
		day = attempts[0].StartedAt.UTC().Format(time.DateOnly)
	}
	return url, day
}

// reconciled runs the verb on an export, and returns its exit code.
func reconciled(t *testing.T, url, export string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export")
	if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	streams := &cli.Streams{In: strings.NewReader(export), Out: &out, Err: &errs, LookupEnv: func(name string) (string, bool) {
		if name != "FENCEPOST_POSTGRES_URL" {
			return "", false
		}
		return url, true
	}}
	err := execute(t.Context(), streams, append([]string{"spend", "reconcile", file}, args...))
	cli.Report(&errs, err)
	return cli.ExitCode(err), out.String(), errs.String()
}

func TestReconcile(t *testing.T) {
	url, day := ledgerOf(t, map[string]int64{"req-1": 10, "req-2": 20, "req-3": 30, "lost": -1})
	byRequest := func(rows ...string) string {
		return "date,model,input_tokens,output_tokens,request_id\n" + strings.ReplaceAll(strings.Join(rows, "\n"), "DAY", day) + "\n"
	}
	page := func(input, requests int) string {
		midnight, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"data":[{"start_time":%d,"end_time":%d,"results":[{"input_tokens":%d,"output_tokens":0,"num_model_requests":%d,"model":"m-1"}]}]}`,
			midnight.Unix(), midnight.Add(24*time.Hour).Unix(), input, requests)
	}
	for _, c := range []struct {
		name, export string
		args         []string
		code         int
		differences  string
		off          int64
	}{
		{"equal by request", byRequest("DAY,m-1,10,0,req-1", "DAY,m-1,20,0,req-2", "DAY,m-1,30,0,req-3"), nil, cli.OK, "", 0},
		{"differs by request", byRequest("DAY,m-1,10,0,req-1", "DAY,m-1,25,0,req-2", "DAY,m-1,7,0,req-9"), nil, cli.Threshold,
			"differs req-2, not_in_export req-3, not_in_ledger req-9", 42},
		{"differs within the tolerance", byRequest("DAY,m-1,10,0,req-1", "DAY,m-1,25,0,req-2", "DAY,m-1,7,0,req-9"), []string{"--tolerance", "42"}, cli.OK,
			"differs req-2, not_in_export req-3, not_in_ledger req-9", 42},
		{"equal by day", page(60, 3), nil, cli.OK, "", 0},
		{"differs by day", page(61, 4), nil, cli.Threshold, "differs ", 1},
		{"by day of another provider", page(60, 3), []string{"--provider", "anthropic"}, cli.Threshold, "not_in_ledger ", 60},
		{"a period in which there is nothing", page(60, 3), []string{"--from", "2020-01-01", "--to", "2020-01-02"}, cli.OK, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := reconciled(t, url, c.export, append(c.args, "-o", "json")...)
			var got reconciliation
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != c.code {
				t.Fatalf("exit code %d, want %d; %v\n%s%s", code, c.code, err, stdout, stderr)
			}
			var named []string
			for _, d := range got.Differences {
				named = append(named, fmt.Sprintf("%s %s", d.Kind, d.RequestID))
				if d.RequestID != "" && d.Ledger != nil && (d.Task == uuid.Nil || d.Attempt != 1) {
					t.Errorf("%+v does not say which attempt it is", d)
				}
			}
			if joined := strings.Join(named, ", "); joined != c.differences || got.OffTokens != c.off {
				t.Errorf("%q, off by %d; want %q, %d", joined, got.OffTokens, c.differences, c.off)
			}
			if wanted := strings.Contains(stderr, "tolerated"); wanted != (c.code == cli.Threshold) {
				t.Errorf("stderr %q", stderr)
			}
			if c.args == nil && len(got.Unknown) != 1 {
				t.Errorf("unknown attempts %+v, want the one that was lost", got.Unknown)
			}
		})
	}
}

func TestReconcileForAPerson(t *testing.T) {
	url, day := ledgerOf(t, map[string]int64{"req-1": 10, "lost": -1})
	code, stdout, stderr := reconciled(t, url, "date,model,input_tokens,output_tokens\n"+day+",m-1,11,2\n"+day+",m-9,1,1\n")
	if code != cli.Threshold {
		t.Errorf("exit code %d, want %d", code, cli.Threshold)
	}
	for _, want := range []string{"DIFFERENCE", "differs        " + day + "  m-1", "11 in, 2 out", "1: 10 (0 cached) in, 0 out", "not_in_ledger  " + day + "  m-9"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for _, want := range []string{"export: 12 in, 3 out", "unknown: task ", "Error: 2 differences, by 5 tokens in all; 0 are tolerated", "Hint: attempts of which nothing"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
}

func TestReconcileRefuses(t *testing.T) {
	const export = "date,model,input_tokens,output_tokens\n2026-11-30,m,1,1\n"
	for _, c := range []struct {
		name, export string
		args         []string
		code         int
		want         string
	}{
		{"no export", "hello\n", nil, cli.Failed, "line 1: there is no column start_time or date"},
		{"a wrong row", export + "2026-11-30,m,x,1\n", nil, cli.Failed, `line 3: input_tokens: "x"`},
		{"a day that is none", export, []string{"--from", "yesterday"}, cli.Misuse, "want a UTC day"},
		{"a period that ends before it begins", export, []string{"--from", "2026-12-02"}, cli.Misuse, "is not before --to"},
		{"half days of sums", export, []string{"--to", "2026-11-30T12:00:00Z"}, cli.Misuse, "have to be days"},
		{"a negative tolerance", export, []string{"--tolerance", "-1"}, cli.Misuse, "cannot be negative"},
		{"two files", export, []string{"other"}, cli.Misuse, `unexpected argument "other"`},
	} {
		code, stdout, stderr := reconciled(t, "", c.export, c.args...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "Hint: ") && c.code == cli.Failed {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, code, c.code, stdout, stderr)
		}
	}
}
