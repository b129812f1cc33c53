package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/procs"
)

// These measure the program itself, as processes, from outside.

func started(b *testing.B, n *procs.Node) *procs.Node {
	b.Helper()
	if err := n.Start(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := n.WaitReady(ctx); err != nil {
		b.Fatal(err, n.Log())
	}
	return n
}

// send posts one message and returns the status.
func send(client *http.Client, api, key, conversation, idempotency, content string) (int, error) {
	body, _ := json.Marshal(map[string]string{"content": content})
	req, err := http.NewRequest(http.MethodPost, api+"/v1/conversations/"+conversation+"/messages", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Idempotency-Key", idempotency)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// BenchmarkSubmit measures accepted submissions of 600 bytes over HTTP, by 128 callers that keep their connections, with
// one API process. The callers run on the same two cores.
//
//	go test -run '^$' -bench Submit -benchtime 100000x
func BenchmarkSubmit(b *testing.B) {
	w := procs.NewWorld(b, 12)
	api := started(b, w.Node("api", "api"))
	content := text(question)
	var next, refused atomic.Int64
	b.ResetTimer()
	var callers sync.WaitGroup
	for range 128 {
		callers.Go(func() {
			c, err := dial(api.API, w.Key)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.conn.Close()
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				status, err := c.submit(fmt.Sprint("c", i%1000), fmt.Sprint("key-", i), content)
				if err != nil {
					b.Error(err)
					return
				}
				if status != http.StatusAccepted {
					refused.Add(1)
				}
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	if refused.Load() > 0 {
		b.Fatalf("%d of %d were not accepted", refused.Load(), b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submissions/s")
}

// BenchmarkAlone measures one task alone on an idle system of three processes: from the POST to the arrival of its call
// at the model, by the clock that both share. It reports the median and the 99th percentile.
//
//	go test -run '^$' -bench Alone -benchtime 300x
func BenchmarkAlone(b *testing.B) {
	w := procs.NewWorld(b, 12)
	api := started(b, w.Node("api", "api"))
	started(b, w.Node("dispatcher", "dispatcher"))
	started(b, w.Node("worker", "worker"))
	sent := map[string]time.Time{}
	b.ResetTimer()
	for i := range b.N {
		content := fmt.Sprint("message ", i)
		sent[content] = time.Now()
		if status, err := send(http.DefaultClient, api.API, w.Key, fmt.Sprint("c", i), fmt.Sprint("alone-", i), content); err != nil || status != http.StatusAccepted {
			b.Fatal(status, err)
		}
		for len(w.Model.Calls()) <= i {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond) // idle again
	}
	b.StopTimer()
	var took []time.Duration
	for _, call := range w.Model.Calls() {
		took = append(took, call.Time.Sub(sent[call.Content]))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms_p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms_p99")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOpenCalls measures what a worker process holds in memory for each call that is open, over the idle process,
// with 5,000 calls that hang at a model in another process.
//
//	go test -run '^$' -bench OpenCalls -benchtime 5000x
func BenchmarkOpenCalls(b *testing.B) {
	w := procs.NewWorld(b, 12)
	w.Model.Rules(`[{"match":{},"do":"hang"}]`)
	api := started(b, w.Node("api", "api"))
	started(b, w.Node("dispatcher", "dispatcher"))
	worker := started(b, w.Node("worker", "worker", "--max-in-flight", fmt.Sprint(b.N)))
	time.Sleep(2 * time.Second)
	idle, err := worker.ResidentBytes()
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		callers.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				if status, err := send(client, api.API, w.Key, fmt.Sprint("c", i), fmt.Sprint("open-", i), text(question)); err != nil || status != http.StatusAccepted {
					b.Errorf("%d, %v", status, err)
				}
			}
		})
	}
	callers.Wait()
	for len(w.Model.Calls()) < b.N {
		time.Sleep(100 * time.Millisecond)
	}
	var peak int64
	for range 100 { // leases are renewed meanwhile
		now, err := worker.ResidentBytes()
		if err != nil {
			b.Fatal(err)
		}
		peak = max(peak, now)
		time.Sleep(100 * time.Millisecond)
	}
	b.ReportMetric(float64(idle)/1024/1024, "MiB_idle")
	b.ReportMetric(float64(peak-idle)/float64(b.N)/1024, "KiB/call")
	b.ReportMetric(0, "ns/op")
}
