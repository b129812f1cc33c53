package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

// TestNothingFromOutsideIsMarkup: names, messages and statuses of a provider or caller stay text, in every part.
func TestNothingFromOutsideIsMarkup(t *testing.T) {
	s := healthy()
	s.lag.Group, s.lag.Topic, s.lag.State, s.lag.Problems = hostile, hostile, hostile, []string{hostile}
	s.lag.Status = hostile
	s.lag.Partitions[0] = Partition{Status: hostile, Why: hostile, Member: hostile, Head: &Head{Task: hostile, TaskStatus: hostile}}
	s.work.ByStatus, s.work.ByOutcome = []Count{{hostile, 1}}, []Count{{hostile, 1}}
	s.work.Failures = []Failure{{Task: hostile, Workspace: hostile, Class: hostile, Message: hostile}}
	s.money.ByModel, s.money.ByWorkspace = []Amount{{Name: hostile}}, []Amount{{Name: hostile}}
	s.money.Budgets = []Budget{{Workspace: hostile, PerDay: 1, Spent: 1}}
	s.outbox = Outbox{Reader: hostile, Pending: 1, Oldest: time.Hour}
	s.gate = Gate{Provider: hostile, Breaker: hostile, Reason: hostile, Message: hostile}
	s.task = Task{ID: hostile, Workspace: hostile, Conversation: hostile, Status: hostile, Class: hostile, Message: hostile, Worker: hostile, Model: hostile,
		Ledger: []Attempt{{Worker: hostile, Provider: hostile, Model: hostile, Outcome: hostile, Class: hostile}}}
	for _, path := range []string{"/", "/page.json", "/tasks/x"} {
		body := get(t, s.all(), path).Body.String()
		if path == "/page.json" {
			var a answer
			if err := json.Unmarshal([]byte(body), &a); err != nil {
				t.Fatal(err)
			}
			body = ""
			for _, part := range a.Parts {
				body += part
			}
		}
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img") {
			t.Errorf("%s has somebody else's markup", path)
		}
		if strings.Count(body, "alert(1)") < 5 {
			t.Errorf("%s does not show what it was given", path)
		}
	}
}

// TestPolicy: what the page brings along is allowed by its digest, and nothing else is: no address of another place, no
// style or handler within an element.
func TestPolicy(t *testing.T) {
	w := get(t, healthy().all(), "/")
	body, csp := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for _, tag := range []string{"style", "script"} {
		m := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(body, -1)
		if len(m) != 1 || !strings.Contains(csp, tag+"-src '"+digest(m[0][1])+"'") {
			t.Errorf("%d %s elements; the policy is %s", len(m), tag, csp)
		}
	}
	if !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("the policy is %s", csp)
	}
	rest := regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>`).ReplaceAllString(body, "")
	for _, bad := range []string{"http://", "https://", "//", " style=", " onclick=", "<form"} {
		if strings.Contains(rest, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestOnlyGet: nothing is changed from here.
func TestOnlyGet(t *testing.T) {
	h := New(Config{Sources: healthy().all()})
	for _, path := range []string{"/", "/page.json", "/tasks/x"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if w := request(t, h, method, path); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	if w := request(t, h, http.MethodGet, "/elsewhere"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown path: %d", w.Code)
	}
}

// TestWhatCannotBeReadIsSaid: an error of every source, a source of another process and no source at all are three things,
// and none of them is a number.
func TestWhatCannotBeReadIsSaid(t *testing.T) {
	failing := healthy()
	failing.err = errors.New("the cable is out")
	elsewhere := healthy()
	elsewhere.err = &ElsewhereError{Reader: "node-9"}
	for name, c := range map[string]struct {
		sources Sources
		want    []string
	}{
		"failing":   {failing.all(), []string{"the cable is out", "LAG UNKNOWN", "OUTBOX UNKNOWN", "TASKS UNKNOWN", "SPEND UNKNOWN", "CANNOT BE READ"}},
		"elsewhere": {Sources{Lag: elsewhere}, []string{"another process reads the lag: node-9", "read elsewhere", "The lag is not read here"}},
		"none":      {Sources{}, []string{"has not come to the reading", "has not been asked yet", "makes no calls"}},
	} {
		t.Run(name, func(t *testing.T) {
			body := regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>`).ReplaceAllString(get(t, c.sources, "/").Body.String(), "")
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("the page does not say %q", want)
				}
			}
			for _, bad := range []string{"$1.50", "$0.00", ">OK<", "records<", "all published"} {
				if strings.Contains(body, bad) {
					t.Errorf("the page says %q", bad)
				}
			}
		})
	}
}

// TestOneReadingForMany: a hundred people who look at once cost one reading, and one who goes away fails nobody.
func TestOneReadingForMany(t *testing.T) {
	s := healthy()
	s.hold = make(chan struct{})
	h := New(Config{Sources: s.all()})
	var wg sync.WaitGroup
	codes := make([]int, 100)
	for i := range codes {
		wg.Go(func() { codes[i] = request(t, h, http.MethodGet, "/page.json").Code })
	}
	for s.reads.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(s.hold)
	wg.Wait()
	if n := s.reads.Load(); n != 1 {
		t.Errorf("%d readings", n)
	}
	for _, code := range codes {
		if code != http.StatusOK {
			t.Fatalf("an answer of %d", code)
		}
	}
}

// TestReadingsAge: what is older than two seconds is read anew.
func TestReadingsAge(t *testing.T) {
	s := healthy()
	r := newReader(s.all())
	now := time.Now()
	r.now = func() time.Time { return now }
	for _, step := range []struct {
		after time.Duration
		want  int64
	}{{0, 1}, {shared - 1, 1}, {1, 2}, {0, 2}} {
		now = now.Add(step.after)
		if _, err := r.read(t.Context()); err != nil || s.reads.Load() != step.want {
			t.Errorf("%d readings, want %d (%v)", s.reads.Load(), step.want, err)
		}
	}
}

func TestTask(t *testing.T) {
	s := healthy()
	s.task = Task{ID: "id-1", Status: "failed", Class: "quota", Message: "no money", Ledger: []Attempt{{Number: 1, Outcome: "failed"}}}
	if w := get(t, s.all(), "/tasks/id-1"); w.Code != 200 || !strings.Contains(w.Body.String(), "no money") || strings.Contains(w.Body.String(), "$0.00") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	var task Task
	w := get(t, s.all(), "/tasks/id-1", "Accept", "application/json")
	if err := json.Unmarshal(w.Body.Bytes(), &task); err != nil || task.Class != "quota" || task.PicoUSD != nil {
		t.Errorf("%v: %s", err, w.Body)
	}
	if w := get(t, s.all(), "/tasks/id-1?format=json"); !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		t.Errorf("%s", w.Header())
	}
	for err, want := range map[error]int{ErrNoTask: 404, errors.New("away"): 502} {
		s.err = err
		for _, path := range []string{"/tasks/x", "/tasks/x?format=json"} {
			if w := get(t, s.all(), path); w.Code != want || !strings.Contains(w.Body.String(), err.Error()) {
				t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
	}
	if w := get(t, Sources{}, "/tasks/x"); w.Code != 503 {
		t.Errorf("without a source: %d", w.Code)
	}
}
