package procs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/errgroup"
)

const (
	conversations   = 200
	perConversation = 10
	maxAttempts     = 12
)

func content(conversation, message int) string {
	return fmt.Sprintf("conversation %03d message %02d", conversation, message)
}

// TestSeparateProcesses is the promise in one test: I1, I2, I3, I5, I6 and the order of a conversation hold while
// workers, dispatchers and APIs are killed and started again at random, over a real Kafka and a real Postgres, and
// while the model fails now and then.
func TestSeparateProcesses(t *testing.T) {
	began := time.Now()
	drawn := seed(t)
	// Short leases and sessions, so that the work of a killed worker goes on within the test.
	w := NewWorld(t, 12, "--lease", "3s", "--session-timeout", "3s", "--drain-timeout", "5s", "--max-attempts", fmt.Sprint(maxAttempts))
	w.Model.Rules(`[
		{"match": {"contains": "message 03"}, "times": 15, "do": "status", "status": 503},
		{"match": {"contains": "message 05"}, "times": 10, "do": "reset_after_headers"},
		{"latency": "300ms"}
	]`)
	var all, apis []*Node
	t.Logf("installed after %s", time.Since(began).Round(time.Millisecond))
	for i := range 7 {
		name := []string{"api-1", "api-2", "dispatcher-1", "dispatcher-2", "worker-1", "worker-2", "worker-3"}[i]
		role, _, _ := strings.Cut(name, "-")
		n := w.Node(name, role)
		all = append(all, n)
		if role == "api" {
			apis = append(apis, n)
		}
	}
	run(t, all...)
	t.Logf("all ready after %s", time.Since(began).Round(time.Millisecond))

	watch := w.Watch()
	defer watch.Stop()
	client := &Client{Key: w.Key, Nodes: apis}
	accepted := submitAll(t, drawn, client, slices.Clone(all))
	t.Logf("%d accepted after %s", len(accepted), time.Since(began).Round(time.Millisecond))
	w.waitFinished(t)
	t.Logf("all finished after %s", time.Since(began).Round(time.Millisecond))
	w.waitCommitted(t)
	if err := watch.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("all committed after %s", time.Since(began).Round(time.Millisecond))
	stop(t, all...)
	t.Logf("all stopped after %s", time.Since(began).Round(time.Millisecond))
	kills := 0
	for _, n := range all {
		t.Logf("%s was killed %d times", n.Name, n.Kills())
		kills += n.Kills()
	}
	if kills < 10 {
		t.Errorf("only %d kills: this run proves little", kills)
	}

	w.checkReplies(t, client, accepted)
	t.Logf("replies checked after %s", time.Since(began).Round(time.Millisecond))
	w.checkOrder(t)
	w.checkLedger(t, accepted, false)
	w.checkCommits(t, watch)
	t.Logf("requests repeated %d, answers replayed %d", client.Repeats.Load(), client.Replays.Load())
}

// submitAll sends every conversation's messages one after the other while nodes are killed. It returns the accepted
// tasks by their content.
func submitAll(t *testing.T, drawn uint64, client *Client, nodes []*Node) map[string]Task {
	t.Helper()
	faults, stopFaults := context.WithCancel(t.Context())
	var chaosDone sync.WaitGroup
	chaosDone.Go(func() { chaos(faults, t, rand.New(rand.NewPCG(drawn, 0)), nodes) })
	defer chaosDone.Wait()
	defer stopFaults()

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var mu sync.Mutex
	accepted := map[string]Task{}
	group, ctx := errgroup.WithContext(ctx)
	for c := range conversations {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(drawn, uint64(c)+1))
			for m := range perConversation {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(time.Duration(random.Int64N(int64(3 * time.Second)))):
				}
				task, err := client.Submit(ctx, fmt.Sprintf("c%03d", c), fmt.Sprintf("key-%d-%d", c, m), content(c, m))
				if err != nil {
					return err
				}
				mu.Lock()
				accepted[content(c, m)] = task
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return accepted
}

// checkReplies: one task for each key (I6), each completed with one reply (I1, I3), which a person sees in the order
// in which the messages were sent.
func (w *World) checkReplies(t *testing.T, client *Client, accepted map[string]Task) {
	t.Helper()
	if len(accepted) != conversations*perConversation {
		t.Errorf("%d messages were accepted", len(accepted))
	}
	var count, completed, replies int
	err := w.Pool.QueryRow(t.Context(), `select count(*), count(*) filter (where status = 'completed'), (select count(*) from replies) from reply_tasks`).
		Scan(&count, &completed, &replies)
	if err != nil {
		t.Fatal(err)
	}
	if want := conversations * perConversation; count != want || completed != want || replies != want {
		t.Errorf("%d tasks, %d completed, %d replies, want %d of each", count, completed, replies, want)
	}
	// The nodes are down: the conversations are read from a new one, which sees only what was stored.
	reader := w.Node("reader", "api")
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := reader.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	view := &Client{Key: client.Key, Nodes: []*Node{reader}}
	for c := range conversations {
		contents, replies, err := view.Replies(ctx, fmt.Sprintf("c%03d", c))
		if err != nil {
			t.Fatal(err)
		}
		if len(contents) != perConversation {
			t.Errorf("conversation %d has %d messages", c, len(contents))
			continue
		}
		for m := range perConversation {
			if contents[m] != content(c, m) {
				t.Errorf("conversation %d: message %d is %q", c, m, contents[m])
			}
			if len(replies[m]) != 1 || !strings.Contains(replies[m][0], content(c, m)) {
				t.Errorf("conversation %d: message %d has the replies %q", c, m, replies[m])
			}
		}
	}
}

// checkOrder: no call of a message began before the reply of the message before it was saved.
func (w *World) checkOrder(t *testing.T) {
	t.Helper()
	rows, err := w.Pool.Query(t.Context(), `
		with steps as (
			select m.conversation, m.content, r.saved_at,
				(select min(a.started_at) from attempts a where a.task_id = t.id) as began,
				lag(r.saved_at) over (partition by m.conversation order by m.seq) as before
			from messages m join reply_tasks t on t.message_id = m.id join replies r on r.task_id = t.id
		)
		select content, before - began from steps where began < before order by conversation`)
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		Content string
		Early   time.Duration
	}
	early, err := pgx.CollectRows(rows, pgx.RowToStructByPos[step])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range early {
		t.Errorf("%s was begun %s before the reply before it was saved", s.Content, s.Early)
	}
}

// checkLedger: the requests that arrived at the model are within the budget (I5), and are those of the product's own
// ledger wherever the worker lived to write it. deaf: the model may not have heard of requests that were sent.
func (w *World) checkLedger(t *testing.T, accepted map[string]Task, deaf bool) {
	t.Helper()
	arrived := map[string]int{}
	for _, call := range w.Model.Calls() {
		arrived[call.Content]++
	}
	rows, err := w.Pool.Query(t.Context(), `
		select m.content, t.attempts, t.max_attempts, count(*)::int,
			coalesce(sum(a.wire_requests), 0)::int,
			count(*) filter (where a.wire_requests is null)::int,
			count(*) filter (where a.outcome = 'accepted')::int
		from reply_tasks t join messages m on m.id = t.message_id join attempts a on a.task_id = t.id
		group by t.id, m.content`)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Content                                       string
		Attempts, Max, Rows, Known, Unknown, Accepted int
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	if err != nil {
		t.Fatal(err)
	}
	var unknown, requests int
	for _, l := range lines {
		n := arrived[l.Content]
		delete(arrived, l.Content)
		unknown, requests = unknown+l.Unknown, requests+n
		if n > l.Max || l.Attempts > l.Max || l.Max != accepted[l.Content].MaxAttempts {
			t.Errorf("%s: %d requests, %d attempts, budget %d", l.Content, n, l.Attempts, l.Max)
		}
		if n < l.Known && !deaf || n > l.Known+l.Unknown {
			t.Errorf("%s: %d requests arrived; the ledger knows %d, and of %d attempts nothing", l.Content, n, l.Known, l.Unknown)
		}
		if l.Accepted != 1 {
			t.Errorf("%s: %d accepted attempts", l.Content, l.Accepted)
		}
	}
	if len(lines) != len(accepted) {
		t.Errorf("the ledger has %d tasks, want %d", len(lines), len(accepted))
	}
	for content, n := range arrived {
		t.Errorf("%d requests for %q, of which the ledger has nothing", n, content)
	}
	t.Logf("%d requests at the model for %d replies; of %d attempts the product does not know whether they were sent", requests, len(lines), unknown)
}

// checkCommits: no position was ahead of unfinished work (I2), and nothing was dead-lettered.
func (w *World) checkCommits(t *testing.T, watch *Watch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	records, err := w.Records(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.Pool.Query(ctx, "select id::text, finished_at from reply_tasks where finished_at is not null")
	if err != nil {
		t.Fatal(err)
	}
	finished := map[string]time.Time{}
	var id string
	var end time.Time
	if _, err := pgx.ForEachRow(rows, []any{&id, &end}, func() error { finished[id] = end; return nil }); err != nil {
		t.Fatal(err)
	}
	wrong, commits := watch.Judge(records, finished)
	for _, w := range wrong[:min(len(wrong), 10)] {
		t.Error(w)
	}
	if len(wrong) > 10 {
		t.Errorf("and %d more", len(wrong)-10)
	}
	t.Logf("%d records for %d tasks; %d positions seen in %d looks", len(records), len(finished), commits, watch.looks)
	dead, err := kadm.NewClient(w.Kafka).ListEndOffsets(ctx, w.Topic+".dlq")
	if err != nil {
		t.Fatal(err)
	}
	dead.Each(func(o kadm.ListedOffset) {
		if o.Offset != 0 {
			t.Errorf("%d records were dead-lettered", o.Offset)
		}
	})
}
