package procs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// The workers of a group are replaced one by one while messages come in: from positions in the group's commits to positions
// with the replies, and back. For a while both kinds are in the group. No call is made twice and nothing is lost.
func TestI2_ThePlaceOfPositionsChangesUnderLoad(t *testing.T) {
	t.Parallel()
	const messages = 240
	w := NewWorld(t, 6, "--lease", "5s", "--session-timeout", "6s", "--drain-timeout", "5s")
	w.Model.Rules(`[{"latency": "300ms"}]`)
	front := w.Node("front", "api,dispatcher")
	workers := []*Node{w.Node("kafka-1", "worker"), w.Node("kafka-2", "worker")}
	run(t, front, workers[0], workers[1])
	watch := w.Watch()
	defer watch.Stop()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	changed := make(chan struct{})
	var load errgroup.Group
	load.Go(func() error {
		for c := range messages {
			// Quickly at the start of a change and slowly towards its end, until all of them are done.
			select {
			case <-changed:
			case <-time.After(time.Duration(20+c) * time.Millisecond):
			}
			if _, err := client.Submit(ctx, fmt.Sprintf("c%03d", c), fmt.Sprintf("key-%d", c), content(c, 0)); err != nil {
				return err
			}
		}
		return nil
	})
	stored := func() (partitions, spans, settled int64) {
		t.Helper()
		err := w.Pool.QueryRow(ctx, `select count(*), coalesce(sum((select count(*) from unnest(settled))), 0),
			coalesce(sum((select sum(upper(r) - lower(r)) from unnest(settled) r)), 0) from partition_positions`).Scan(&partitions, &spans, &settled)
		if err != nil {
			t.Fatal(err)
		}
		return partitions, spans, settled
	}
	before := int64(0)
	for i, place := range []string{"postgres", "postgres", "kafka", "kafka", "postgres", "postgres"} {
		next := w.Node(fmt.Sprintf("%s-%d", place, i+3), "worker", "--offsets", place)
		run(t, next)
		w.waitMembers(t, 3)
		stop(t, workers[0])
		w.waitMembers(t, 2)
		workers = append(workers[1:], next)
		if i == 1 {
			_, _, before = stored()
		}
	}
	close(changed)
	if err := load.Wait(); err != nil {
		t.Fatal(err)
	}
	w.settled(t, watch)
	w.wantStates(t, messages, "accepted")
	wantCalls(t, w.Model, messages, nil)
	// All that was ever settled, also while positions were in the group's commits, in one span a partition.
	partitions, spans, settled := stored()
	if partitions != 6 || spans != 6 || settled != messages || before == 0 || before == messages {
		t.Errorf("%d of %d records are stored as settled, in %d spans of %d partitions; %d after the first change", settled, messages, spans, partitions, before)
	}
}
