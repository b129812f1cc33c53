package procs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Watch reads the group's commits and the positions that are stored with the replies all the time, each with an instant of the database's clock at which it was there
// already. It judges at the end: a record below a commit must point at a task that had been finished by that instant.
// That is exact however long the reads take: a position that Watch has seen ahead of the work, if only by milliseconds,
// is found, since the task's end is later than the instant noted. Only what came and went between two looks is not seen.
type Watch struct {
	w      *World
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	seen   []commit
	looks  int
	missed int // looks at what had been killed
}

// commit is the first sight of a position, or of a span that is stored as settled.
type commit struct {
	partition int32
	offset    int64     // everything before it is said to be settled
	seenBy    time.Time // by the database's clock
	from      int64     // a span: everything from here on; only a position never goes back
	span      bool
}

// Watch begins to watch.
func (w *World) Watch() *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	watch := &Watch{w: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(watch.done)
		watch.err = watch.run(ctx)
	}()
	return watch
}

// Stop ends the watching. The error says that it could not watch all the time.
func (x *Watch) Stop() error {
	x.cancel()
	<-x.done
	return x.err
}

func (x *Watch) run(ctx context.Context) error {
	admin := kadm.NewClient(x.w.Kafka)
	last := map[commit]int64{}
	for ctx.Err() == nil {
		seen, err := x.look(ctx, admin)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			if x.w.own == (Own{}) {
				return err
			}
			// What is killed cannot be looked at; what it knew is still there when it is back.
			x.missed++
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		x.note(last, seen)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	// What Stop's caller has waited for is looked at in any case.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	seen, err := x.look(ctx, admin)
	if err == nil {
		x.note(last, seen)
	}
	return err
}

// note keeps what is new.
func (x *Watch) note(last map[commit]int64, seen []commit) {
	x.looks++
	for _, c := range seen {
		place := commit{partition: c.partition, from: c.from, span: c.span}
		if before, known := last[place]; !known || before != c.offset {
			x.seen = append(x.seen, c)
			last[place] = c.offset
		}
	}
}

func (x *Watch) look(ctx context.Context, admin *kadm.Client) ([]commit, error) {
	if x.w.own != (Own{}) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	offsets, err := admin.FetchOffsets(ctx, x.w.Group)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("the group's commits: %w", err)
	}
	rows, err := x.w.Pool.Query(ctx, `select partition, lower(span), upper(span), true
		from partition_positions, unnest(settled) span where consumer_group = $1`, x.w.Group)
	if err != nil {
		return nil, fmt.Errorf("the stored positions: %w", err)
	}
	var seen []commit
	var c commit
	if _, err := pgx.ForEachRow(rows, []any{&c.partition, &c.from, &c.offset, &c.span}, func() error { seen = append(seen, c); return nil }); err != nil {
		return nil, fmt.Errorf("the stored positions: %w", err)
	}
	for partition, o := range offsets[x.w.Topic] {
		seen = append(seen, commit{partition: partition, offset: o.At})
	}
	// After both, so that what they say was there by then.
	var now time.Time
	if err := x.w.Pool.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
		return nil, fmt.Errorf("the database's clock: %w", err)
	}
	for i := range seen {
		seen[i].seenBy = now
	}
	return seen, nil
}

// pointer is where a record is and what it points at.
type pointer struct {
	partition int32
	offset    int64
	task      string
}

// Records reads the whole topic, without a group.
func (w *World) Records(ctx context.Context) ([]pointer, error) {
	admin := kadm.NewClient(w.Kafka)
	ends, err := admin.ListEndOffsets(ctx, w.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	left := map[int32]int64{} // partition -> its end
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.ConsumeTopics(w.Topic), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var out []pointer
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, r := range fetches.Records() {
			var value struct {
				Task string `json:"task"`
			}
			if err := json.Unmarshal(r.Value, &value); err != nil {
				return nil, fmt.Errorf("record %d/%d: %w", r.Partition, r.Offset, err)
			}
			out = append(out, pointer{r.Partition, r.Offset, value.Task})
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return out, nil
}

// Judge returns what was wrong with the commits that were seen (I2), and how many were judged. finished holds the end
// of each task by the database's clock.
func (x *Watch) Judge(records []pointer, finished map[string]time.Time) (wrong []string, commits int) {
	last := map[int32]int64{}
	for _, c := range x.seen {
		if !c.span {
			if before, known := last[c.partition]; known && c.offset < before {
				wrong = append(wrong, fmt.Sprintf("partition %d: the position went back from %d to %d", c.partition, before, c.offset))
			}
			last[c.partition] = c.offset
		}
		for _, r := range records {
			if r.partition != c.partition || r.offset < c.from || r.offset >= c.offset {
				continue
			}
			end, ok := finished[r.task]
			if ok && !end.After(c.seenBy) {
				continue
			}
			ended := "has not ended"
			if ok {
				ended = "ended " + end.Sub(c.seenBy).String() + " later"
			}
			wrong = append(wrong, fmt.Sprintf("partition %d: position %d (from %d) was seen, but the task %s of record %d %s",
				c.partition, c.offset, c.from, r.task, r.offset, ended))
		}
	}
	return wrong, len(x.seen)
}
