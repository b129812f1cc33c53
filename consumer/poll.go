package consumer

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
)

const (
	maxPoll = 2000
	// fatalAfter is how long a partition may answer every fetch with an error before the session begins anew: the client
	// does not get over a recreated topic, for one, and returns its error thousands of times a second.
	fatalAfter = 5 * time.Second
	// forgetAfter is how long an error must not have come again to be over.
	forgetAfter = 3 * time.Second
)

// failing is a partition whose fetches fail.
type failing struct{ since, last time.Time }

// poll receives records until the session ends. It never works on them, so that no work can hold up a rebalance.
func (s *session) poll() {
	pause := backoff{base: 50 * time.Millisecond, max: time.Second}
	failed := map[partitionKey]failing{}
	for s.ctx.Err() == nil {
		fetches := s.client.PollRecords(s.ctx, maxPoll)
		if fetches.IsClientClosed() {
			s.end(kgo.ErrClientClosed)
			return
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				delete(failed, partitionKey{p.Topic, p.Partition})
			}
			s.receive(p)
		})
		if s.pollErrors(fetches, failed) {
			sleep(s.ctx, pause.next())
		} else {
			pause.reset()
		}
	}
}

// pollErrors logs what is worth knowing, reports whether a partition cannot be fetched now, and ends the session when
// one has not been for too long.
func (s *session) pollErrors(fetches kgo.Fetches, failed map[partitionKey]failing) (any bool) {
	fetches.EachError(func(topic string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		var group *kgo.ErrGroupSession
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, kerr.FencedInstanceID), errors.Is(err, kerr.UnreleasedInstanceID):
			s.end(errInstanceTaken)
			return
		case errors.As(err, &loss):
			s.c.log.Error("records were lost before they were read", "topic", topic, "partition", partition,
				"consumed_to", loss.ConsumedTo, "reset_to", loss.ResetTo)
			return
		case errors.As(err, &group):
			s.c.log.Warn("group session ended", "error", err)
			return
		}
		any = true
		key, now := partitionKey{topic, partition}, time.Now()
		f := failed[key]
		if now.Sub(f.last) > forgetAfter {
			f.since = now
			s.c.log.Error("fetching fails", "topic", topic, "partition", partition, "error", err)
		}
		f.last = now
		failed[key] = f
		if now.Sub(f.since) > fatalAfter {
			s.end(err)
		}
	})
	return any
}

// receive registers the records of one partition's fetch and queues them.
func (s *session) receive(p kgo.FetchTopicPartition) {
	c := s.c
	c.mu.Lock()
	a := s.assignments[partitionKey{p.Topic, p.Partition}]
	if a == nil {
		c.mu.Unlock()
		return // revoked since it was fetched: its next owner reads them
	}
	if len(p.Records) > 0 && p.Records[0].Offset < a.behind {
		// The log was cut back while it was read: its offsets may hold other records than those that were settled.
		c.beginEvent(beginLogCut, partitionKey{p.Topic, p.Partition}, a.committed.Offset, p.Records[0].Offset, logRange{-1, p.HighWatermark})
		s.end(errLogCut)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()

	items := make([]*item, len(p.Records))
	var rejected []*item
	for i, rec := range p.Records {
		if rec.Attrs.IsControl() || offsets.Contains(a.ahead, rec.Offset) {
			continue
		}
		it := newItem(a, rec)
		var err error
		if it.ref, err = decodeRecord(rec.Value); err != nil {
			rejected = append(rejected, it)
			c.log.Warn("unreadable record", "topic", p.Topic, "partition", p.Partition, "offset", rec.Offset, "error", err)
		}
		items[i] = it
	}

	c.mu.Lock()
	if a.dead || a.draining {
		c.mu.Unlock()
		return
	}
	skipped := 0
	for i, rec := range p.Records {
		h := a.tracker.Register(rec.Offset, rec.LeaderEpoch)
		it := items[i]
		if !h.Valid() {
			continue
		}
		from := a.behind
		if !rec.Attrs.IsControl() { // a marker's offset is settled with the record behind it
			a.behind = rec.Offset + 1
		}
		if it == nil {
			a.tracker.Done(h)
			skipped++
			continue
		}
		it.handle, it.from = h, max(0, from)
		a.received = append(a.received, receipt{it.offset, it.timestamp})
		a.bytes += it.size()
		if it.ref.Workspace == "" {
			a.start(it)
			continue
		}
		key, ordered := laneKey(c.cfg.Order, rec)
		a.enqueue(it, key, ordered)
	}
	a.logEnd = p.HighWatermark
	c.makeReady(a)
	full := a.full(c.cfg)
	c.mu.Unlock()

	c.metrics.records.WithLabelValues("skipped").Add(float64(skipped))
	for _, it := range rejected {
		if it.handle.Valid() {
			c.deadLetter(it, "unreadable")
		}
	}
	if full {
		c.adjustFetching(a)
	}
}
