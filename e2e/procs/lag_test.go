package procs

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/offsets/lag"
)

// lag is what `fencepost lag` says.
func (w *World) lag(t *testing.T, args ...string) (r lag.Report) {
	t.Helper()
	out := w.CLI(append([]string{"lag", "-o", "json", "--kafka-brokers", strings.Join(w.Brokers, ","), "--kafka-topic", w.Topic, "--kafka-group", w.Group}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// kafkaLag is what Apache Kafka's own tool says, by partition and column.
func (w *World) kafkaLag(t *testing.T) map[int32]map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // it may have to be fetched
	defer cancel()
	out, err := broker.ConsumerGroups(ctx, w.Brokers, "--describe", "--group", w.Group)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int32]map[string]string{}
	var titles []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "GROUP":
			titles = words
		case len(words) > 1 && words[0] == w.Group && words[1] == w.Topic:
			row := map[string]string{}
			for i, word := range words {
				row[titles[i]] = word
			}
			n, err := strconv.ParseInt(row["PARTITION"], 10, 32)
			if err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			rows[int32(n)] = row
		}
	}
	return rows
}

// agree compares both, number by number.
func (w *World) agree(t *testing.T, partitions int) lag.Report {
	t.Helper()
	theirs, ours := w.kafkaLag(t), w.lag(t)
	again := w.lag(t, "--postgres-url", w.PostgresURL)
	if len(ours.Partitions) != partitions || len(theirs) == 0 {
		t.Fatalf("%d partitions here, %d there", len(ours.Partitions), len(theirs))
	}
	word := func(o lag.Offset) string {
		if o < 0 {
			return "-"
		}
		return strconv.FormatInt(int64(o), 10)
	}
	for i, p := range ours.Partitions {
		row := theirs[p.Partition]
		if row == nil { // it leaves out what has neither a commit nor a member
			if p.Committed >= 0 || p.Member != "" {
				t.Errorf("partition %d is only here: %+v", p.Partition, p)
			}
			continue
		}
		if row["CURRENT-OFFSET"] != word(p.Committed) || row["LOG-END-OFFSET"] != word(p.End) || row["LAG"] != "-" && row["LAG"] != word(p.Lag) {
			t.Errorf("partition %d: %v there, here committed %d, end %d, lag %d", p.Partition, row, p.Committed, p.End, p.Lag)
		}
		if member := row["CONSUMER-ID"]; member != "-" && member != p.Member {
			t.Errorf("partition %d: member %q there, %q here", p.Partition, member, p.Member)
		}
		if q := again.Partitions[i]; q.Committed != p.Committed || q.End != p.End || q.Lag != p.Lag {
			t.Errorf("partition %d: with the database it is %+v, without %+v", p.Partition, q, p)
		}
	}
	return again
}

// TestLagAgreesWithKafka: under load that is stopped at a random moment, `fencepost lag` and kafka-consumer-groups say
// the same of every partition, with members and without, wherever positions are kept.
func TestLagAgreesWithKafka(t *testing.T) {
	for _, place := range []string{"kafka", "postgres"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			const partitions = 12
			drawn := seed(t)
			random := rand.New(rand.NewPCG(drawn, 0))
			w := NewWorld(t, partitions, "--offsets", place, "--session-timeout", "40s", "--max-in-flight", "16")
			w.Model.Rules(`[{"match": {"contains": "conversation 007"}, "do": "hang"}, {"latency": "150ms"}]`)
			front := w.Node("front", "api,dispatcher")
			workers := []*Node{w.Node("worker-1", "worker"), w.Node("worker-2", "worker")}
			run(t, front, workers[0], workers[1])
			w.waitMembers(t, 2)
			send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 400)
			waitCalls(t, w.Model, 80+random.IntN(120))
			for _, worker := range workers {
				if err := worker.Pause(); err != nil {
					t.Fatal(err)
				}
			}
			// What the dispatcher still publishes would move the ends between two looks.
			w.waitPublished(t)
			r := w.agree(t, partitions)
			if r.TotalLag == 0 || r.Members != 2 || r.Offsets != place {
				t.Errorf("lag %d, %d members, positions in %s: this run proves little", r.TotalLag, r.Members, r.Offsets)
			}
			heads, stored := 0, 0
			for _, p := range r.Partitions {
				if p.Head != nil && p.Head.Task != "" && p.Head.Attempt != nil && p.Head.TaskStatus != "missing" {
					heads++
				} else if p.LagSeconds != 0 {
					t.Errorf("partition %d waits for %v s with head %+v", p.Partition, p.LagSeconds, p.Head)
				}
				if p.Stored > p.Committed {
					stored++
				}
			}
			if heads == 0 || place == "kafka" && stored > 0 {
				t.Errorf("%d heads, %d partitions are stored ahead of their commits", heads, stored)
			}

			// The dispatcher tells the lag of partitions whose workers are gone; a process without that role says who does.
			for _, worker := range workers {
				if err := worker.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			var told lag.Report
			status, body, err := get(t.Context(), front.Admin+"/lag.json")
			if err == nil {
				err = json.Unmarshal(body, &told)
			}
			if err != nil || status != http.StatusOK || told.TotalLag != r.TotalLag || len(told.Partitions) != partitions {
				t.Errorf("/lag.json is %d, %v, lag %d of %d partitions, want %d", status, err, told.TotalLag, len(told.Partitions), r.TotalLag)
			}
			status, body, err = get(t.Context(), front.Admin+"/metrics")
			if err != nil || status != http.StatusOK {
				t.Fatalf("/metrics is %d, %v", status, err)
			}
			for _, p := range r.Partitions {
				series := fmt.Sprintf("fencepost_consumer_lag_records{group=%q,partition=\"%d\",topic=%q} %d\n", w.Group, p.Partition, w.Topic, p.Lag)
				if n := strings.Count(string(body), series); n != 1 {
					t.Errorf("%d series %s", n, series)
				}
			}
		})
	}
}

// waitPublished waits until every task that was accepted has its record.
func (w *World) waitPublished(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var n int
		if err := w.Pool.QueryRow(t.Context(), "select count(*) from handoffs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d handoffs are not published", n)
		}
	}
}

// TestLagIsToldByOne: of two dispatchers one tells the lag; when it dies the other does, and a worker says who.
func TestLagIsToldByOne(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 3)
	nodes := []*Node{w.Node("one", "dispatcher"), w.Node("two", "dispatcher")}
	worker := w.Node("worker", "worker")
	run(t, nodes[0], nodes[1], worker)
	elected := func() (who []*Node) {
		for _, n := range nodes {
			if status, _, err := get(t.Context(), n.Admin+"/lag.json"); err == nil && status == http.StatusOK {
				who = append(who, n)
			}
		}
		return who
	}
	wait := func(what string, good func([]*Node) bool) []*Node {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			who := elected()
			if good(who) {
				return who
			}
			if time.Now().After(deadline) {
				t.Fatalf("waited for: %s; %d tell the lag", what, len(who))
			}
		}
	}
	first := wait("one of them", func(who []*Node) bool { return len(who) == 1 })[0]
	status, body, err := get(t.Context(), worker.Admin+"/lag.json")
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(string(body), fmt.Sprintf("-%d-", first.Pid())) {
		t.Errorf("a worker answers %d, %v: %s; it is process %d that reads", status, err, body, first.Pid())
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	wait("the other one", func(who []*Node) bool { return len(who) == 1 && who[0] != first })
}
