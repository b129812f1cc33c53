package procs

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// run starts nodes and waits until they are ready.
func run(t *testing.T, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, n := range nodes {
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// stop stops nodes with SIGTERM, all at once.
func stop(t *testing.T, nodes ...*Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var stopping sync.WaitGroup
	for _, n := range nodes {
		stopping.Go(func() {
			if code, err := n.Stop(ctx); err != nil || code != 0 {
				t.Errorf("%s ends with code %d, %v", n.Name, code, err)
			}
		})
	}
	stopping.Wait()
}

// send submits n messages, each in a conversation of its own.
func send(t *testing.T, client *Client, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for c := range n {
		if _, err := client.Submit(ctx, fmt.Sprintf("c%03d", c), fmt.Sprintf("key-%d", c), content(c, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// waitCalls waits until n requests have arrived at the model.
func waitCalls(t *testing.T, m *Model, n int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for len(m.Calls()) < n {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests at the model, want %d", len(m.Calls()), n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// saved counts tasks that are completed with a reply.
func (w *World) saved(t *testing.T) (n int) {
	t.Helper()
	err := w.Pool.QueryRow(t.Context(), "select count(*) from reply_tasks t join replies r on r.task_id = t.id where t.status = 'completed'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitFinished waits until no task is unfinished.
func (w *World) waitFinished(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		var unfinished int
		err := w.Pool.QueryRow(ctx, "select count(*) from reply_tasks where finished_at is null").Scan(&unfinished)
		if err != nil && w.own == (Own{}) {
			t.Fatal(err)
		}
		if err == nil && unfinished == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%d tasks are unfinished", unfinished) // what else is wrong says why
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// waitCommitted waits until the outbox is empty and the group's position is the end of every partition.
func (w *World) waitCommitted(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	admin := kadm.NewClient(w.Kafka)
	for {
		var left int
		if err := w.Pool.QueryRow(ctx, "select count(*) from handoffs").Scan(&left); err != nil {
			t.Fatal(err)
		}
		ends, err := admin.ListEndOffsets(ctx, w.Topic)
		if err != nil {
			t.Fatal(err)
		}
		offsets, err := admin.FetchOffsets(ctx, w.Group)
		if err != nil {
			t.Fatal(err)
		}
		behind := map[int32]int64{}
		ends.Each(func(end kadm.ListedOffset) {
			if at := offsets[w.Topic][end.Partition].At; end.Offset > 0 && at != end.Offset {
				behind[end.Partition] = end.Offset - at
			}
		})
		if left == 0 && len(behind) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%d handoffs are left, and partitions are behind by %v", left, behind)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// waitMembers waits until the group is stable with n members, whichever protocol they speak.
func (w *World) waitMembers(t *testing.T, n int) {
	t.Helper()
	admin := kadm.NewClient(w.Kafka)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		groups, err := admin.DescribeGroups(ctx, w.Group)
		if err != nil {
			t.Fatal(err)
		}
		state, members := groups[w.Group].State, len(groups[w.Group].Members)
		if state != "Stable" {
			// A group of the other protocol is dead to the one, and an error to the other.
			if groups, err := admin.DescribeConsumerGroups(ctx, w.Group); err == nil && groups[w.Group].Err == nil {
				state, members = groups[w.Group].State, len(groups[w.Group].Members)
			}
		}
		if state == "Stable" && members == n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the group is %s with %d members, want %d", state, members, n)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// read returns all records of a topic, which must be n.
func (w *World) read(t *testing.T, topic string, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ends, err := kadm.NewClient(w.Kafka).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	var have int
	ends.Each(func(o kadm.ListedOffset) { have += int(o.Offset) })
	if have != n {
		t.Fatalf("%s has %d records, want %d", topic, have, n)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var out []*kgo.Record
	for len(out) < n {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}
