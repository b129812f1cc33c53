package lag

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/offsets"
)

const (
	perRequest = 64        // partitions in one fetch
	perCount   = 8         // the same when much is read of each
	firstBytes = 8 << 10   // of each: a pointer needs 200 bytes, and a batch may hold many
	moreBytes  = 512 << 10 // once that was too little, and for counting
	headRounds = 200       // fetches that one search for a head may need: aborted or compacted batches come one by one
)

// scan is the reading of one partition from an offset on: for its first record that is not settled, or for all of them.
// A scan asks for single offsets and joins no group, so nothing moves because of it.
type scan struct {
	partition int32
	leader    int32
	at, end   int64
	settled   []offsets.Run
	count     bool // read on behind the first one and count

	head  *kgo.Record // first record that is not settled
	found int64       // records from the scan's start on, settled or not
	done  bool        // all that was asked for is known
	err   error

	from   int64 // the count begins here
	open   bool  // beyond the last stable offset: what is there may yet be aborted
	alone  bool  // asks by itself: the first batch of a response comes whole, whatever its size
	bytes  int32
	rounds int
}

// fetcher reads many partitions side by side, each from its leader.
type fetcher struct {
	client *kgo.Client
	topic  string
	id     [16]byte
}

// run works on all scans until each is done or has failed, or ctx ends.
func (f *fetcher) run(ctx context.Context, scans []*scan) {
	leaders := make(map[int32][]*scan)
	for _, s := range scans {
		s.bytes = firstBytes
		if s.count {
			s.bytes = moreBytes
		}
		leaders[s.leader] = append(leaders[s.leader], s)
	}
	var wg sync.WaitGroup
	for leader, list := range leaders {
		wg.Go(func() { f.runLeader(ctx, leader, list) })
	}
	wg.Wait()
}

func (f *fetcher) runLeader(ctx context.Context, leader int32, list []*scan) {
	for {
		list = slices.DeleteFunc(list, func(s *scan) bool { return s.done || s.err != nil })
		if len(list) == 0 {
			return
		}
		// Those that wait longest come first: a broker fills a response in the order of the request.
		slices.SortStableFunc(list, func(a, b *scan) int { return a.rounds - b.rounds })
		most := perRequest
		if list[0].count {
			most = perCount
		}
		turn := list[:min(len(list), most)]
		if i := slices.IndexFunc(list, func(s *scan) bool { return s.alone }); i >= 0 {
			turn = list[i : i+1]
		}
		if err := f.fetch(ctx, leader, turn); err != nil {
			for _, s := range list {
				s.err = err
			}
			return
		}
	}
}

// fetch asks once for each of the scans.
func (f *fetcher) fetch(ctx context.Context, leader int32, turn []*scan) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	byIsolation := [2][]*scan{}
	for _, s := range turn {
		level := 1
		if s.open {
			level = 0
		}
		byIsolation[level] = append(byIsolation[level], s)
	}
	for level, part := range byIsolation {
		if len(part) == 0 {
			continue
		}
		resp, err := f.request(ctx, leader, int8(level), part)
		if err != nil {
			return err
		}
		f.digest(resp, level, part)
	}
	return nil
}

func (f *fetcher) request(ctx context.Context, leader int32, level int8, part []*scan) (*kmsg.FetchResponse, error) {
	req := kmsg.NewPtrFetchRequest()
	req.IsolationLevel = level
	req.MaxBytes = 0
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = f.topic, f.id
	for _, s := range part {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = s.partition, s.at, s.bytes
		t.Partitions = append(t.Partitions, p)
		req.MaxBytes += s.bytes
	}
	req.Topics = append(req.Topics, t)
	answer, err := f.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return resp, nil
}

func (f *fetcher) digest(resp *kmsg.FetchResponse, level int, part []*scan) {
	answered := make(map[int32]*kmsg.FetchResponseTopicPartition)
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			answered[p.Partition] = p
		}
	}
	isolation := kgo.ReadUncommitted()
	if level == 1 {
		isolation = kgo.ReadCommitted()
	}
	for _, s := range part {
		s.rounds++
		p := answered[s.partition]
		if p == nil {
			s.err = errors.New("fetch: the broker says nothing of this partition")
			continue
		}
		got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Offset: s.at, IsolationLevel: isolation, Topic: f.topic, Partition: s.partition,
		}, p, kgo.DefaultDecompressor(), nil)
		if got.Err != nil {
			s.err = fmt.Errorf("fetch: %w", got.Err)
			continue
		}
		s.take(got, next)
	}
}

// take goes on by what one fetch brought.
func (s *scan) take(got kgo.FetchPartition, next int64) {
	for _, r := range got.Records {
		if r.Offset >= s.end || r.Offset < s.at {
			continue
		}
		s.found++
		if s.head == nil && !offsets.Contains(s.settled, r.Offset) {
			s.head = r
		}
	}
	moved, alone := next > s.at, s.alone
	s.at, s.alone = max(s.at, next), false
	switch {
	case s.head != nil && !s.count, s.at >= s.end:
		s.done = true
	case moved:
		if !s.count && s.rounds > headRounds {
			s.err = fmt.Errorf("no record within %d fetches", s.rounds)
		}
	case !s.open && s.at >= got.LastStableOffset && got.LastStableOffset < s.end:
		s.open = true // a transaction is under way: its records are waited for, and have an age
	case !alone:
		s.alone, s.bytes = true, moreBytes // the others may have left no room
	case s.at >= got.HighWatermark:
		s.done = true // the log is shorter than it was
	default:
		// Compaction may have left nothing up to the end; a broker then answers with no batch, for ever.
		s.done = true
	}
}

// age is how long ago a record was made, by its own time.
func age(r *kgo.Record, now time.Time) Seconds { return seconds(now.Sub(r.Timestamp)) }
