package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/fencepost/fencepost/e2e/internal/child"
)

// replayArgs are a verb of replay with what it needs to find everything.
func (w *World) replayArgs(args ...string) []string {
	return append(args, "--kafka-brokers", strings.Join(w.Brokers, ","), "--kafka-topic", w.Topic, "--kafka-group", w.Group, "--postgres-url", w.PostgresURL)
}

// try runs a verb that may fail.
func (w *World) try(args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(w.t), args...)
	cmd.Env = environment()
	cmd.Dir = w.t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			w.t.Fatal(err)
		}
		code = exit.ExitCode()
	}
	return code, out.String(), errs.String()
}

// positions are all that the group has, in both places.
type positions struct {
	committed map[int32]kadm.Offset
	settled   map[int32]string
}

func (w *World) positions(t *testing.T) positions {
	t.Helper()
	list, err := kadm.NewClient(w.Kafka).FetchOffsets(t.Context(), w.Group)
	if err != nil {
		t.Fatal(err)
	}
	p := positions{map[int32]kadm.Offset{}, map[int32]string{}}
	for n, o := range list[w.Topic] {
		p.committed[n] = o.Offset
	}
	rows, err := w.Pool.Query(t.Context(), `select partition, settled::text from partition_positions where consumer_group = $1`, w.Group)
	if err != nil {
		t.Fatal(err)
	}
	var partition int32
	var settled string
	if _, err := pgx.ForEachRow(rows, []any{&partition, &settled}, func() error { p.settled[partition] = settled; return nil }); err != nil {
		t.Fatal(err)
	}
	return p
}

// replies are all that is saved, whole.
func (w *World) replies(t *testing.T) map[string]string {
	t.Helper()
	rows, err := w.Pool.Query(t.Context(), `select task_id::text, r::text from replies r`)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var id, row string
	if _, err := pgx.ForEachRow(rows, []any{&id, &row}, func() error { out[id] = row; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *World) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := w.Pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var places = map[string][]string{"kafka": nil, "postgres": {"--offsets", "postgres"}}

// A range is replayed while a worker is in the group; the replay is killed in the middle and given again. No position moves,
// no saved reply changes, completed tasks cost no call, and each failed one gets one budget that is seen. The dispatcher
// rests meanwhile, so that nothing but the replay could move anything.
func TestI5_AReplayThatIsKilledAndGivenAgainReArmsEachFailedTaskOnce(t *testing.T) {
	const good, bad = 30, 25
	for name, flags := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t, 3, flags...)
			w.Model.Rules(`[{"match": {"contains": "unlucky"}, "do": "status", "status": 400}]`)
			front, worker := w.Node("front", "api,dispatcher"), w.Node("worker", "worker")
			run(t, front, worker)
			client := &Client{Key: w.Key, Nodes: []*Node{front}}
			send(t, client, good)
			for n := range bad {
				if _, err := client.Submit(t.Context(), fmt.Sprintf("unlucky-%d", n), fmt.Sprintf("unlucky-%d", n), "unlucky"); err != nil {
					t.Fatal(err)
				}
			}
			w.waitFinished(t)
			w.waitCommitted(t)
			stop(t, front)
			before, replies, calls := w.positions(t), w.replies(t), len(w.Model.Calls())
			if calls != good+bad || len(replies) != good {
				t.Fatalf("%d calls and %d replies", calls, len(replies))
			}

			args := w.replayArgs("replay", "--all-partitions", "--from-earliest", "-o", "json")
			var plan struct {
				Tasks    map[string]int64
				Will     map[string]int64
				Executed struct {
					Rearmed int64
					Resumed bool
					Done    bool
				}
			}
			if err := json.Unmarshal([]byte(w.CLI(args...)), &plan); err != nil {
				t.Fatal(err)
			}
			if want := (map[string]int64{"completed": good, "failed": bad, "cancelled": 0, "unfinished": 0, "missing": 0, "unreadable": 0}); !maps.Equal(plan.Tasks, want) {
				t.Errorf("plan %v, want %v", plan.Tasks, want)
			}
			if want := (map[string]int64{"rearm": bad, "skip": good}); !maps.Equal(plan.Will, want) {
				t.Errorf("it will %v, want %v", plan.Will, want)
			}
			if n := w.count(t, `select count(*) from replays`); n != 0 {
				t.Errorf("a plan has left %d accounts", n)
			}

			args = append(args, "--execute", "--reason", "the provider is back", "--yes")
			killed, err := child.Start(filepath.Join(t.TempDir(), "replay.log"), environment(), Binary(t), append(args, "--rate", "4")...)
			if err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(30 * time.Second)
			for w.count(t, `select count(*) from replayed_tasks`) < bad/3 {
				if time.Now().After(deadline) {
					t.Fatal("the replay does not begin")
				}
				time.Sleep(20 * time.Millisecond)
			}
			if err := killed.Signal(syscall.SIGKILL); err != nil {
				t.Fatal("the replay was done before it could be killed")
			}
			<-killed.Done()
			half := w.count(t, `select count(*) from replayed_tasks`)
			if half == bad {
				t.Fatal("the replay was done before it was killed: this run proves nothing")
			}
			if err := json.Unmarshal([]byte(w.CLI(args...)), &plan); err != nil {
				t.Fatal(err)
			}
			if e := plan.Executed; e.Rearmed != bad || !e.Resumed || !e.Done {
				t.Errorf("after the kill at %d: %+v", half, e)
			}
			if after := w.positions(t); !reflect.DeepEqual(after, before) {
				t.Errorf("positions %+v, want %+v", after, before)
			}
			w.waitMembers(t, 1)
			if n := w.count(t, `select count(*) from reply_tasks where status = 'queued' and max_attempts = 10 and attempts = 1 and finished_at is null`); n != bad {
				t.Errorf("%d tasks have one new budget, want %d", n, bad)
			}
			if n := w.count(t, `select count(*) from handoffs`); n != bad {
				t.Errorf("%d handoffs, want %d", n, bad)
			}
			if n := w.count(t, `select count(*) from replays where done_at is not null and rearmed = 25 and reason = 'the provider is back' and actor like '%@%'`); n != 1 {
				t.Errorf("%d accounts, want 1", n)
			}

			w.Model.Rules(`[]`)
			run(t, front)
			w.waitFinished(t)
			w.waitCommitted(t)
			after := w.replies(t)
			if len(after) != good+bad || len(w.Model.Calls()) != calls+bad {
				t.Errorf("%d replies, %d calls; want %d and %d", len(after), len(w.Model.Calls()), good+bad, calls+bad)
			}
			for id, reply := range replies {
				if after[id] != reply {
					t.Errorf("reply %s, was %s", after[id], reply)
				}
			}
			// Once more there is nothing to do, and that is no failure.
			if code, out, errs := w.try(args...); code != 0 || !strings.Contains(out, `"rearm": 0`) || !strings.Contains(errs, "nothing to do") {
				t.Errorf("code %d: %s%s", code, out, errs)
			}
		})
	}
}

// A worker is killed while it has settled records ahead of its position. The group is rewound, and the undo file brings back
// what was there, to the letter and in both places; rewound once more, it reads everything again and calls no model for it.
func TestI2_ARewindAndItsUndoBringBackExactlyThePositionsBefore(t *testing.T) {
	const messages = 20
	for name, flags := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t, 1, append([]string{"--lease", "2s", "--session-timeout", "3s"}, flags...)...)
			w.Model.Rules(`[{"match": {"contains": "stuck"}, "latency": "10m"}]`)
			front, worker := w.Node("front", "api,dispatcher"), w.Node("worker", "worker")
			run(t, front, worker)
			client := &Client{Key: w.Key, Nodes: []*Node{front}}
			send(t, client, messages/2)
			if _, err := client.Submit(t.Context(), "stuck", "stuck", "stuck"); err != nil {
				t.Fatal(err)
			}
			for n := range messages / 2 {
				if _, err := client.Submit(t.Context(), fmt.Sprintf("later-%d", n), fmt.Sprintf("later-%d", n), "later"); err != nil {
					t.Fatal(err)
				}
			}
			deadline := time.Now().Add(30 * time.Second)
			for w.saved(t) < messages || !strings.HasPrefix(w.positions(t).committed[0].Metadata, "fp1:") {
				if time.Now().After(deadline) {
					t.Fatalf("%d saved, positions %+v", w.saved(t), w.positions(t))
				}
				time.Sleep(50 * time.Millisecond)
			}
			undo := filepath.Join(t.TempDir(), "undo.json")
			rewind := w.replayArgs("replay", "rewind", "--group", w.Group, "--partition", "0", "--to-offset", "3", "--execute", "--yes", "--undo-file", undo, "-o", "json")
			code, out, errs := w.try(rewind...)
			if code != 3 || out != "" || !strings.Contains(errs, "fencepost-worker") {
				t.Errorf("with a member: code %d: %s%s", code, out, errs)
			}
			if err := worker.Kill(); err != nil {
				t.Fatal(err)
			}
			before := w.positions(t)
			for code == 3 { // until the group has given up the member that was killed
				if time.Now().After(deadline.Add(time.Minute)) {
					t.Fatal(errs)
				}
				time.Sleep(200 * time.Millisecond)
				code, out, errs = w.try(rewind...)
			}
			if code != 0 || !strings.Contains(out, undo) {
				t.Fatalf("code %d: %s%s", code, out, errs)
			}
			moved := w.positions(t)
			if moved.committed[0].At != 3 || moved.committed[0].Metadata != "" || name == "postgres" && moved.settled[0] != "{[0,3)}" {
				t.Errorf("positions %+v", moved)
			}
			if code, out, errs := w.try(w.replayArgs("replay", "rewind", "--from-file", undo, "--execute", "--yes")...); code != 0 || !strings.Contains(out, "fencepost-undo-") {
				t.Fatalf("code %d: %s%s", code, out, errs)
			}
			if after := w.positions(t); !reflect.DeepEqual(after, before) {
				t.Errorf("positions %+v, want %+v", after, before)
			}

			if err := os.Remove(undo); err != nil {
				t.Fatal(err)
			}
			if code, _, errs := w.try(rewind...); code != 0 {
				t.Fatalf("code %d: %s", code, errs)
			}
			w.Model.Rules(`[]`)
			run(t, worker)
			w.waitFinished(t)
			w.waitCommitted(t)
			if n := len(w.Model.Calls()); n != messages+2 { // the stuck one twice: its worker was killed
				t.Errorf("%d calls, want %d", n, messages+2)
			}
		})
	}
}
