package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/e2e/procs"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// BenchmarkWaiters measures an API process in which b.N requests wait, each for a task and on a connection of its own:
// memory, queries while nothing happens, and the time from a save in another process to the answer. The callers run on the
// same machine. Each side needs a file descriptor a waiter.
//
//	go test -run '^$' -bench Waiters/events -benchtime 100x    (1000x, 19800x)
func BenchmarkWaiters(b *testing.B) {
	b.Run("events", func(b *testing.B) { waiters(b, "/events", "event: reply\n") })
	b.Run("wait", func(b *testing.B) { waiters(b, "?wait=60s", `"status":"completed"`) })
}

const savedAlone = 400 // tasks that are saved one by one

func waiters(b *testing.B, path, finished string) {
	if b.N == 1 {
		return // the framework's own trial
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	if files.Cur = files.Max; files.Cur < uint64(b.N)+150 {
		b.Fatalf("%d file descriptors are too few", files.Max)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	w := procs.NewWorld(b, 1)
	store := openStore(b, w.PostgresURL)
	all := submitted(b, store, b.N)
	api := started(b, w.Node("api", "api"))
	time.Sleep(2 * time.Second)
	idle, err := api.ResidentBytes()
	if err != nil {
		b.Fatal(err)
	}

	arrived := make([]atomic.Int64, b.N) // when, in nanoseconds
	var callers sync.WaitGroup
	slots := make(chan struct{}, 64) // that connect at once
	for i := range b.N {
		slots <- struct{}{}
		callers.Go(func() {
			if err := wait(api.API, w.Key, all[i].TaskID, path, finished, func() { <-slots }); err != nil {
				b.Error(err)
			}
			arrived[i].Store(time.Now().UnixNano())
		})
	}
	for metric(b, api, "fencepost_http_waiting_requests") < float64(b.N) {
		if b.Failed() {
			b.FailNow()
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	full, err := api.ResidentBytes()
	if err != nil {
		b.Fatal(err)
	}
	const window = 10 * time.Second
	queries := metric(b, api, "fencepost_http_waiting_queries_total")
	time.Sleep(window)
	queries = metric(b, api, "fencepost_http_waiting_queries_total") - queries

	// Saved as a worker does it that has nothing else to do.
	config, err := pgx.ParseConfig(w.PostgresURL)
	if err != nil {
		b.Fatal(err)
	}
	hints := postgres.NewHints(config, nil)
	ctx, stop := context.WithCancel(b.Context())
	hinted := make(chan struct{})
	go func() { defer close(hinted); _ = hints.Run(ctx) }()
	done := claimed(b, store, all)
	time.Sleep(time.Second)
	alone := min(savedAlone, b.N)
	saved := make([]int64, alone)
	for i := range alone {
		save(b, store, done[i:i+1])
		saved[i] = time.Now().UnixNano()
		hints.Notify(postgres.ChannelFinished)
		time.Sleep(15 * time.Millisecond)
	}
	var took []time.Duration
	for i := range alone {
		for arrived[i].Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Duration(arrived[i].Load()-saved[i]))
	}
	slices.Sort(took)
	for rest := done[alone:]; len(rest) > 0; {
		n := min(200, len(rest))
		save(b, store, rest[:n])
		hints.Notify(postgres.ChannelFinished)
		rest = rest[n:]
	}
	end := time.Now()
	callers.Wait()
	b.ReportMetric(time.Since(end).Seconds(), "s_all_at_once")
	b.ReportMetric(float64(full-idle)/float64(b.N)/1024, "KiB/waiter")
	b.ReportMetric(queries/window.Seconds(), "queries/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms_p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms_p99")
	b.ReportMetric(0, "ns/op")
	stop()
	<-hinted
}

// wait asks until the task has finished. begun is called once the first request is on its way.
func wait(api, key string, id uuid.UUID, path, finished string, begun func()) error {
	host := strings.TrimPrefix(api, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		begun()
		return err
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 512)
	for ; ; begun = func() {} {
		_, err := fmt.Fprintf(conn, "GET /v1/tasks/%s%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", id, path, host, key)
		begun()
		if err != nil {
			return err
		}
		var line []byte
		for {
			part, more, err := r.ReadLine()
			if err != nil {
				return fmt.Errorf("%w after %q", err, line)
			}
			if line = append(line, part...); more {
				continue
			}
			if strings.HasPrefix(string(line), "HTTP/1.1 ") && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
				return fmt.Errorf("%s", line)
			}
			if bytes.Contains(append(line, '\n'), []byte(finished)) {
				return nil
			}
			if bytes.HasPrefix(line, []byte(`{"id"`)) {
				break // as it stands
			}
			line = line[:0]
		}
	}
}

// submitted stores n tasks of the world's workspace.
func submitted(b *testing.B, store *postgres.Store, n int) []tasks.Submission {
	b.Helper()
	all := make([]tasks.Submission, 0, n)
	for len(all) < n {
		from := len(all)
		for range min(500, n-from) {
			s := submission(len(all), n)
			s.Workspace = "test"
			all = append(all, s)
		}
		if _, err := store.Submit(b.Context(), all[from:]); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := store.Pool().Exec(b.Context(), "vacuum analyze"); err != nil {
		b.Fatal(err)
	}
	return all
}

// claimed takes all tasks, and returns how each will be completed.
func claimed(b *testing.B, store *postgres.Store, all []tasks.Submission) (done []tasks.Settlement) {
	b.Helper()
	for part := range slices.Chunk(all, 200) {
		refs := make([]tasks.Ref, len(part))
		for i, s := range part {
			refs[i] = tasks.Ref{TaskID: s.TaskID, Workspace: s.Workspace}
		}
		out, err := store.Claim(b.Context(), tasks.Claimer{Worker: "bench", Lease: time.Hour, ParkMax: time.Minute, Provider: "sim"}, refs)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range out {
			done = append(done, tasks.Settlement{
				Assignment: c.Work.Assignment, Outcome: tasks.OutcomeComplete, Call: tasks.Call{WireRequests: 1, Model: "sim"},
				Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Text: text(answered), Model: "sim", FinishReason: "stop"},
			})
		}
	}
	return done
}

func save(b *testing.B, store *postgres.Store, done []tasks.Settlement) {
	b.Helper()
	out, err := store.Settle(b.Context(), done)
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range out {
		if s.Verdict != tasks.VerdictAccepted {
			b.Fatal(s)
		}
	}
}

// metric reads one of a process' metrics.
func metric(b *testing.B, n *procs.Node, name string) float64 {
	b.Helper()
	resp, err := http.Get(n.Admin + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var v float64
		if _, err := fmt.Sscanf(lines.Text(), name+" %g", &v); err == nil {
			return v
		}
	}
	b.Fatal("no metric ", name)
	return 0
}
