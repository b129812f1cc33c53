package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/offsets"
)

var (
	errTimeout   = errors.New("commit was not answered in time")
	errNoAnswer  = errors.New("broker did not answer for this partition")
	errNotBound  = errors.New("committer is not bound to a client")
	errAmbiguous = errors.New("it may have been committed")
)

// Commit commits each item for the member that acquired its partition; memberID is what kgo.Client.GroupMetadata gave
// then. It returns one outcome an item, in their order: nil when the broker has acknowledged it, offsets.ErrNotOwner,
// offsets.ErrRegress, offsets.ErrInvalid, or a transient error, after which the position may be committed or not.
//
// It may be called from OnPartitionsRevoked. It must not be called from OnPartitionsLost: there is nothing to commit.
func (c *Committer) Commit(ctx context.Context, memberID string, commits []offsets.Commit) []error {
	errs := make([]error, len(commits))
	if len(commits) == 0 {
		return errs
	}
	cl := c.client.Load()
	switch {
	case cl == nil:
		return fill(errs, errNotBound)
	case memberID == "":
		// A commit without a member id is accepted by a broker whose group is empty.
		return fill(errs, fmt.Errorf("%w: not a member", offsets.ErrNotOwner))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return fill(errs, fmt.Errorf("waiting for another commit: %w", context.Cause(ctx)))
	}

	b := c.screen(memberID, commits, errs)
	tooLarge := c.send(ctx, cl, b)
	if len(tooLarge) > 0 {
		c.lowerLimit(b, tooLarge)
		c.send(ctx, cl, b.bare(tooLarge))
	}
	return errs
}

// batch is one request: items by partition, each with the place of its outcome.
type batch struct {
	memberID string
	items    map[partition]item
	errs     []error
}

type item struct {
	index    int
	position offsets.Position
	metadata string
}

// screen leaves out what must not be sent, and encodes the rest.
func (c *Committer) screen(memberID string, commits []offsets.Commit, errs []error) batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := batch{memberID: memberID, items: make(map[partition]item, len(commits)), errs: errs}
	for i, cm := range commits {
		p := partition{cm.Topic, cm.Partition}
		if _, twice := b.items[p]; twice || cm.Position.Offset < 0 {
			errs[i] = offsets.ErrInvalid
			continue
		}
		if f, ok := c.floor[p]; ok && f.memberID == memberID && cm.Position.Offset < f.offset {
			errs[i] = fmt.Errorf("%w: %d after %d", offsets.ErrRegress, cm.Position.Offset, f.offset)
			continue
		}
		b.items[p] = item{i, cm.Position, offsets.EncodeRuns(cm.Position.Offset, cm.Ahead, c.limit)}
	}
	return b
}

// send puts one request on the wire and writes the outcomes. It returns the partitions whose metadata was refused, which
// are not committed.
func (c *Committer) send(ctx context.Context, cl *kgo.Client, b batch) (tooLarge []partition) {
	if len(b.items) == 0 {
		return nil
	}
	positions := make(map[string]map[int32]kgo.EpochOffset)
	for p, it := range b.items {
		if positions[p.topic] == nil {
			positions[p.topic] = make(map[int32]kgo.EpochOffset)
		}
		positions[p.topic][p.id] = kgo.EpochOffset{Epoch: it.position.LeaderEpoch, Offset: it.position.Offset}
	}
	// onDone has always returned before CommitOffsetsSync does.
	cl.CommitOffsetsSync(kgo.PreCommitFnContext(ctx, b.prepare), positions,
		func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				b.fail(ctx, err)
				return
			}
			tooLarge = c.judge(b, answers(req, resp))
		})
	return tooLarge
}

// prepare is the last look before the request leaves: franz-go has put the member id on it that is current now.
func (b batch) prepare(req *kmsg.OffsetCommitRequest) error {
	if req.MemberID != b.memberID {
		return fmt.Errorf("%w: the member id has changed", offsets.ErrNotOwner)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			metadata := b.items[partition{t.Topic, t.Partitions[j].Partition}].metadata
			t.Partitions[j].Metadata = &metadata
		}
	}
	return nil
}

// fail writes an outcome of the whole request.
func (b batch) fail(ctx context.Context, err error) {
	switch {
	case errors.Is(err, offsets.ErrNotOwner):
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", context.Cause(ctx), errAmbiguous)
	default:
		err = fmt.Errorf("committing offsets: %w", err)
	}
	for _, it := range b.items {
		b.errs[it.index] = err
	}
}

// judge writes the outcome of each partition.
func (c *Committer) judge(b batch, codes map[partition]int16) (tooLarge []partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, it := range b.items {
		code, ok := codes[p]
		err := kerr.ErrorForCode(code)
		switch {
		case !ok:
			err = errNoAnswer
		case err == nil:
			c.floor[p] = committedAt{b.memberID, it.position.Offset}
		case errors.Is(err, kerr.OffsetMetadataTooLarge) && it.metadata != "":
			tooLarge = append(tooLarge, p)
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID),
			errors.Is(err, kerr.StaleMemberEpoch), errors.Is(err, kerr.FencedMemberEpoch):
			err = fmt.Errorf("%w: %w", offsets.ErrNotOwner, err)
		}
		b.errs[it.index] = err
	}
	return tooLarge
}

// bare is b's items of some partitions, without their metadata.
func (b batch) bare(ps []partition) batch {
	items := make(map[partition]item, len(ps))
	for _, p := range ps {
		it := b.items[p]
		it.metadata = ""
		items[p] = it
	}
	b.items = items
	return b
}

// lowerLimit makes the next commits fit a broker that allows less than was configured, without a second request each.
func (c *Committer) lowerLimit(b batch, refused []partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.limit
	for _, p := range refused {
		c.limit = min(c.limit, len(b.items[p].metadata)/2)
	}
	if c.limit < was {
		c.log.Warn("broker refused commit metadata as too large; writing less of it from now on",
			"group", c.group, "limit_bytes", was, "new_limit_bytes", c.limit)
	}
}

// answers collects the response's codes. From version 10 on a response may name topics by id only.
func answers(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) map[partition]int16 {
	names := make(map[[16]byte]string, len(req.Topics))
	for _, t := range req.Topics {
		names[t.TopicID] = t.Topic
	}
	codes := make(map[partition]int16)
	for _, t := range resp.Topics {
		topic := t.Topic
		if topic == "" {
			topic = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			codes[partition{topic, p.Partition}] = p.ErrorCode
		}
	}
	return codes
}

func fill(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}
