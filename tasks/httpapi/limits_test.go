package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

var discard = slog.New(slog.DiscardHandler)

func TestRatesOfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRates(6)
		taken := func(workspace string) (n int) {
			for r.take(workspace) == 0 {
				if n++; n > 100 {
					t.Fatal("there is no end")
				}
			}
			return n
		}
		if n := taken("a"); n != 6 {
			t.Errorf("%d at once, want 6", n)
		}
		if n := taken("b"); n != 6 {
			t.Errorf("%d of another workspace, want 6", n)
		}
		if wait := r.take("a"); wait != 10*time.Second {
			t.Errorf("the next one in %s, want 10s", wait)
		}
		time.Sleep(10 * time.Second)
		if n := taken("a"); n != 1 {
			t.Errorf("%d after a share of the minute, want 1", n)
		}
		time.Sleep(35 * time.Second)
		if n := taken("a"); n != 3 {
			t.Errorf("%d after 35s, want 3", n)
		}
		time.Sleep(time.Hour)
		if n := taken("a"); n != 6 {
			t.Errorf("%d after an hour, want 6", n)
		}
		r.giveBack("a")
		r.giveBack("a")
		if n := taken("a"); n != 2 {
			t.Errorf("%d after two were given back, want 2", n)
		}
		for range 100 { // gives no more than there ever was
			r.giveBack("a")
		}
		if n := taken("a"); n > 6 {
			t.Errorf("%d at once, want at most 6", n)
		}
		if none := newRates(0); none.take("a") != 0 {
			t.Error("without a bound there is a wait")
		}
	})
}

func TestLimitersRememberAFewWorkspaces(t *testing.T) {
	r := newRates(1)
	q := newQuota(countingBacklog(func(string) (int, error) { return 0, nil }), 1, discard)
	for i := range 2 * maxWorkspaces {
		name := strconv.Itoa(i)
		r.take(name)
		q.take(t.Context(), name)
	}
	if len(r.paid) > maxWorkspaces || len(q.counts) > maxWorkspaces {
		t.Errorf("%d rates and %d counts are remembered, want at most %d", len(r.paid), len(q.counts), maxWorkspaces)
	}
}

type countingBacklog func(workspace string) (int, error)

func (c countingBacklog) UnfinishedOf(_ context.Context, workspace string, _ int) (int, error) {
	return c(workspace)
}

func TestQuotaCountsOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts, n, failing := 0, 3, false
		q := newQuota(countingBacklog(func(string) (int, error) {
			if counts++; failing {
				return 0, tasks.ErrUnavailable
			}
			return n, nil
		}), 5, discard)
		taken := func() (k int) {
			for k < 100 && q.take(t.Context(), "w") {
				k++
			}
			return k
		}
		if k := taken(); k != 2 || counts != 1 {
			t.Errorf("%d places and %d counts, want 2 and 1", k, counts)
		}
		q.giveBack("w")
		if k := taken(); k != 1 || counts != 1 {
			t.Errorf("%d places and %d counts, want 1 and 1", k, counts)
		}
		time.Sleep(countedFor)
		if k := taken(); k != 2 || counts != 2 {
			t.Errorf("%d places and %d counts, want 2 and 2", k, counts)
		}
		time.Sleep(countedFor)
		if failing = true; taken() != 100 {
			t.Error("a store that does not answer refuses")
		}
		if failing, n = false, 9; taken() != 0 {
			t.Error("a full workspace has places")
		}
	})
}

func TestWorkspacesHaveARateEach(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.WorkspaceSubmissionsPerMinute = 3 })
	post := func(key string, headers ...string) answer {
		return a.do("POST", messages, `{"content":"hi"}`, append([]string{"Idempotency-Key", key}, headers...)...)
	}
	for i := range 3 {
		post(fmt.Sprint(i)).want(t, 202)
		post(fmt.Sprint(i)).want(t, 202) // a repeat is none of them
		a.do("POST", messages, `{"content":"other"}`, "Idempotency-Key", fmt.Sprint(i)).problem(t, 422, "idempotency_key_reused")
	}
	refused := post("new")
	refused.problem(t, 429, "rate_limited")
	if wait, err := strconv.Atoi(refused.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 20 {
		t.Errorf("Retry-After %q", refused.Header.Get("Retry-After"))
	}
	if again := post("0").want(t, 202); again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a repeat of accepted work: %v", again.Header)
	}
	post("new", "Authorization", "Bearer "+a.other).want(t, 202)
	if page, err := a.store.Tasks(t.Context(), tasks.Filter{Workspace: "w1"}); err != nil || len(page) != 3 {
		t.Errorf("%d tasks, %v, want 3", len(page), err)
	}
}

func TestWorkspacesHaveABacklogEach(t *testing.T) {
	store := memory.New(memory.Config{})
	a := newAPIOn(t, store, func(c *Config) { c.Backlog, c.Limits.WorkspaceMaxUnfinished = store, 2 })
	post := func(headers ...string) answer { return a.do("POST", messages, `{"content":"hi"}`, headers...) }
	first := a.send("k1", `{"content":"hi"}`)
	a.send("k1", `{"content":"hi"}`)
	a.send("k2", `{"content":"hi"}`)
	refused := post("Idempotency-Key", "k3")
	refused.problem(t, 429, "rate_limited")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	post("Idempotency-Key", "k2").want(t, 202)
	post("Idempotency-Key", "k3", "Authorization", "Bearer "+a.other).want(t, 202)
	a.finish(first, "done")
	eventually(t, "there is room again", func() bool { return post("Idempotency-Key", "k3").StatusCode == http.StatusAccepted })
	post("Idempotency-Key", uuid.NewString()).problem(t, 429, "rate_limited")
}

func TestABoundNeedsACount(t *testing.T) {
	if _, err := New(Config{Store: down{}, Keys: noKeys{}, Limits: Limits{WorkspaceMaxUnfinished: 1}}); err == nil {
		t.Error("a bound on unfinished tasks was taken without a count of them")
	}
}
