package page

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/procs"
)

// fill puts ended tasks with an attempt each into the database: one in fifty has failed.
const fill = `
with t as (
    insert into reply_tasks (id, workspace, conversation, message_id, kind, status, assignment_version, attempts, max_attempts, max_interruptions,
        on_ambiguous, accepted_at, available_at, deadline, finished_at, failure_class, failure_message, failure_attempt)
    select ('0199f3aa-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'test', 'c' || n, gen_random_uuid(), 'reply',
        case when n % 50 = 0 then 'failed' else 'completed' end, 1, 1, 5, 5, 'retry', now(), now(), now() + '1h', now(),
        case when n % 50 = 0 then 'permanent' end, case when n % 50 = 0 then 'it is <b>not</b> allowed' end, 1
    from generate_series(1, 10000) n returning id, status
)
insert into attempts (task_id, assignment_version, attempt, worker, provider, model, started_at, ended_at, outcome, failure_class, wire_requests)
select id, 1, 1, 'worker', 'sim', 'sim-1', now(), now(), case status when 'failed' then 'failed' else 'accepted' end,
    case status when 'failed' then 'permanent' end, 1 from t`

// TestARunningProcess: the page of the real program with three hundred partitions and ten thousand tasks, from the list of
// failures to a task, and on to what it is without scripts.
func TestARunningProcess(t *testing.T) {
	const partitions, tasks = 300, 10_000
	w := procs.NewWorld(t, partitions)
	if _, err := w.Pool.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Pool.Exec(t.Context(), `analyze`); err != nil {
		t.Fatal(err)
	}
	node := w.Node("node", "api,dispatcher,worker")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	if err := node.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	client := &procs.Client{Key: w.Key, Nodes: []*procs.Node{node}}
	for i := range 5 {
		if _, err := client.Submit(ctx, fmt.Sprint("c", i), fmt.Sprint("k", i), "hello"); err != nil {
			t.Fatal(err)
		}
	}

	tab := Start(t).Open(t, Look{Width: 1280, Height: 900})
	tab.Go(node.Admin + "/")
	tab.Until("the lag of every partition", fmt.Sprintf(`document.querySelectorAll("#lag tbody tr[id]").length === %d`, partitions))
	tab.Until("all tasks", fmt.Sprintf(`document.querySelector("#work caption").textContent.replace(/\D/g, "") === "%d"`, tasks))
	before := tab.Received()
	tab.Until("three refreshes", `performance.getEntriesByName("refresh").length > 3`)
	times := Eval[[]float64](tab, `performance.getEntriesByName("refresh").map((e) => e.duration)`)
	t.Logf("a refresh takes %.0f ms, and %d KB", times, (tab.Received()-before)/int64(len(times))>>10)
	if size := tab.Received(); size > int64(len(times)+2)*5<<20 {
		t.Errorf("%d bytes have come", size)
	}
	tab.Shot(*shots, "real", 1280, 4000)
	judge(t, tab, 1280)

	tab.Go(Eval[string](tab, `document.querySelector("#failures tbody a").href`))
	if text := Eval[string](tab, `document.querySelector("main").innerText`); !containsAll(text, "failed", "permanent", "it is <b>not</b> allowed", "sim-1") {
		t.Errorf("the task's page says: %s", text)
	}
	judge(t, tab, 1280)

	plain := Start(t).Open(t, Look{Width: 1280, Height: 900, NoScript: true})
	plain.Go(node.Admin + "/?sort=partition")
	if n := Eval[int](plain, `document.querySelectorAll("#lag tbody tr[id]").length`); n != partitions {
		t.Errorf("without scripts there are %d partitions", n)
	}
	judge(t, plain, 1280)
}
