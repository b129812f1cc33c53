package procs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// mode is a way to run workers: what must hold does so in each.
type mode struct {
	name  string
	flags []string
}

var modes = []mode{
	{"classic, kafka", nil},
	{"consumer, kafka", []string{"--group-protocol", "consumer"}},
	{"classic, postgres", []string{"--offsets", "postgres"}},
	{"consumer, postgres", []string{"--group-protocol", "consumer", "--offsets", "postgres"}},
}

// A rolling deploy under load: three workers are stopped and started again, one after the other. It costs no second
// call, loses nothing, and moves no position back.
func TestRollingRestartCostsNoSecondCall(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t, 12, append([]string{"--lease", "10s", "--session-timeout", "3s", "--drain-timeout", "10s"}, m.flags...)...)
			w.Model.Rules(`[{"latency": "400ms"}]`)
			front, workers := w.fleet(t)
			watch := w.Watch()
			defer watch.Stop()
			drawn := seed(t)
			load := begin(t, &Client{Key: w.Key, Nodes: []*Node{front}}, drawn, 60, 6, 2*time.Second)
			waitCalls(t, w.Model, 20)
			for _, worker := range workers {
				stop(t, worker)
				run(t, worker)
			}
			before := len(w.Model.Calls())
			accepted := load.wait(t)
			if before >= len(accepted) {
				t.Errorf("all %d calls had been made when the last worker was back: this run proves little", before)
			}
			w.waitFinished(t)
			w.waitCommitted(t)
			if err := watch.Stop(); err != nil {
				t.Error(err)
			}
			w.checkAll(t, watch, accepted, false)
			w.wantStates(t, len(accepted), "accepted")
			wantCalls(t, w.Model, len(accepted), nil)
		})
	}
}

// The same with kill -9: one more request at most for each call that the killed worker had open, and none elsewhere.
func TestI5_KilledWorkersCostNoMoreThanTheirOpenCalls(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t, 12, append([]string{"--lease", "2s", "--session-timeout", "3s", "--drain-timeout", "5s"}, m.flags...)...)
			w.Model.Rules(`[{"latency": "400ms"}]`)
			front, workers := w.fleet(t)
			watch := w.Watch()
			defer watch.Stop()
			load := begin(t, &Client{Key: w.Key, Nodes: []*Node{front}}, seed(t), 60, 6, 2*time.Second)
			waitCalls(t, w.Model, 20)
			allowed, open := map[string]int{}, 0
			for _, worker := range workers {
				// It stands still while what it holds is read, so that this is what dies with it.
				if err := worker.Pause(); err != nil {
					t.Fatal(err)
				}
				for _, content := range w.held(t, worker) {
					allowed[content]++
					open++
				}
				kill(t, worker)
				run(t, worker)
			}
			accepted := load.wait(t)
			w.waitFinished(t)
			w.waitCommitted(t)
			if err := watch.Stop(); err != nil {
				t.Error(err)
			}
			if open == 0 {
				t.Error("the killed workers had no calls open: this run proves little")
			}
			w.checkAll(t, watch, accepted, false)
			extra := 0
			for content, n := range w.Model.arrived() {
				if n > 1+allowed[content] {
					t.Errorf("%d requests for %q, of which killed workers had %d open", n, content, allowed[content])
				}
				extra += n - 1
			}
			t.Logf("%d calls were open on killed workers; %d requests came a second time", open, extra)
		})
	}
}

// fleet starts a front and three workers.
func (w *World) fleet(t *testing.T) (front *Node, workers []*Node) {
	t.Helper()
	front = w.Node("front", "api,dispatcher")
	for i := range 3 {
		workers = append(workers, w.Node(fmt.Sprintf("worker-%d", i+1), "worker"))
	}
	run(t, append([]*Node{front}, workers...)...)
	w.waitMembers(t, 3)
	return front, workers
}

// held returns the messages of the tasks that a worker which stands still has in work.
func (w *World) held(t *testing.T, worker *Node) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	rows, err := w.Pool.Query(ctx, `
		select m.content from reply_tasks t join messages m on m.id = t.message_id
		where t.status = 'running' and t.worker like '%-' || $1::text || '-%'`, fmt.Sprint(worker.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	contents, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return contents
}
