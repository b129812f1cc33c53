package procs

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// quick are settings with which the work of a killed worker goes on within seconds.
var quick = []string{"--lease", "2s", "--session-timeout", "2s", "--drain-timeout", "3s"}

// What the statements of the store are known by, on the wire.
const (
	claiming   = "insert into attempts"
	saving     = "insert into replies"
	forgetting = "delete from handoffs"
)

// eachPlace runs a test with the positions in the group's commits, and with the positions beside the replies.
func eachPlace(t *testing.T, test func(t *testing.T, flags []string)) {
	t.Parallel()
	for _, place := range []string{"kafka", "postgres"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			test(t, append(slices.Clone(quick), "--offsets", place))
		})
	}
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// rule applies an action to the first times requests of a name, or with a piece of SQL in them, and counts them.
func rule(p *proxy.Proxy, what string, action proxy.Action, times int64) *atomic.Int64 {
	var n atomic.Int64
	p.Rule(func(request string) proxy.Action {
		if isRequest(request, what) && n.Add(1) <= times {
			return action
		}
		return proxy.Forward
	})
	return &n
}

// isRequest: what is a request's name, or, with a space in it, a piece of its SQL.
func isRequest(request, what string) bool {
	return request == what || strings.Contains(what, " ") && strings.Contains(request, what)
}

const always = 1 << 40

// arrived counts the requests at the model by their content.
func (m *Model) arrived() map[string]int {
	m.t.Helper()
	n := map[string]int{}
	for _, c := range m.Calls() {
		n[c.Content]++
	}
	return n
}

// wantCalls: n requests at the model in all, and for each message as many as want says, 1 for those it does not name.
func wantCalls(t *testing.T, m *Model, messages int, want map[string]int) {
	t.Helper()
	arrived := m.arrived()
	if len(arrived) != messages {
		t.Errorf("the model has heard of %d messages, want %d", len(arrived), messages)
	}
	for content, n := range arrived {
		least, named := want[content]
		if !named {
			least = 1
		}
		if n != least {
			t.Errorf("%d requests at the model for %q, want %d", n, content, least)
		}
	}
}

// state is a task as the store has it.
type state struct {
	Content, Status         string
	Attempts, Interruptions int
	Class                   string
	Replies                 int
	Text                    string
	Outcomes                string // of its attempts, in their order
}

// states returns all tasks by their content.
func (w *World) states(t *testing.T) map[string]state {
	t.Helper()
	rows, err := w.Pool.Query(t.Context(), `
		select m.content, t.status, t.attempts, t.interruptions, coalesce(t.failure_class, ''),
			(select count(*)::int from replies r where r.task_id = t.id),
			coalesce((select max(r.text) from replies r where r.task_id = t.id), ''),
			coalesce((select string_agg(a.outcome, ' ' order by a.assignment_version) from attempts a where a.task_id = t.id), '')
		from reply_tasks t join messages m on m.id = t.message_id`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[state])
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]state{}
	for _, s := range list {
		if _, twice := all[s.Content]; twice {
			t.Errorf("%q has two tasks", s.Content)
		}
		all[s.Content] = s
	}
	return all
}

// wantStates: n tasks, each completed with one reply to its own message, and with the given outcomes of its attempts.
func (w *World) wantStates(t *testing.T, n int, outcomes string) {
	t.Helper()
	all := w.states(t)
	if len(all) != n {
		t.Errorf("%d tasks, want %d", len(all), n)
	}
	for _, s := range all {
		if s.Status != "completed" || s.Replies != 1 || !strings.Contains(s.Text, s.Content) || s.Outcomes != outcomes {
			t.Errorf("%+v, want it completed with one reply to its own message after the attempts %q", s, outcomes)
		}
	}
}

// committed returns the group's commits of the topic.
func (w *World) committed(t *testing.T) map[int32]kadm.Offset {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	offsets, err := kadm.NewClient(w.Kafka).FetchOffsets(ctx, w.Group)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	at := map[int32]kadm.Offset{}
	for p, o := range offsets[w.Topic] {
		at[p] = o.Offset
	}
	return at
}

// published counts the records of the topic.
func (w *World) published(t *testing.T) (n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ends, err := kadm.NewClient(w.Kafka).ListEndOffsets(ctx, w.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// kill kills nodes with -9.
func kill(t *testing.T, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}

// settled waits for the end of all tasks and the commits of all records, and judges the commits that were seen.
func (w *World) settled(t *testing.T, watch *Watch) {
	t.Helper()
	w.waitFinished(t)
	w.waitCommitted(t)
	if err := watch.Stop(); err != nil {
		t.Error(err)
	}
	w.checkCommits(t, watch)
}
