package consumer

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"
)

func (s PartitionState) label() string { return strconv.Itoa(int(s.Partition)) }

// Partitions returns the state of every partition that this worker owns, in order.
func (c *Consumer) Partitions() []PartitionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		return nil
	}
	list := make([]PartitionState, 0, len(c.session.assignments))
	for _, a := range c.session.assignments {
		s := PartitionState{
			Topic: a.topic, Partition: a.partition, Position: a.tracker.Position().Offset, Committed: a.committed.Offset,
			End: a.logEnd, InFlight: a.tracker.Unsettled(), SettledAhead: a.tracker.SettledAhead(), Head: -1, Paused: a.paused, Begin: a.why,
		}
		if head, ok := a.head(); ok {
			s.Head, s.HeadAge = head.offset, max(0, time.Since(time.UnixMilli(head.timestamp)))
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b PartitionState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return list
}

var (
	errNotJoined = errors.New("not yet a member of the consumer group")
	errStopping  = errors.New("draining: nothing new is started")
)

// Ready says why this worker cannot work, or nil: it is in the group, and within the session timeout the brokers have said
// so. A member without partitions is ready.
func (c *Consumer) Ready() error {
	if c.stopping.Load() {
		return errStopping
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || !c.session.joined {
		return errNotJoined
	}
	session := c.cfg.SessionTimeout
	if c.cfg.Protocol == ProtocolConsumer {
		session = max(session, brokersSession)
	}
	return c.session.pulse.silent(session, c.cfg.RebalanceTimeout)
}

// brokersSession is what brokers have for group.consumer.session.timeout.ms unless told otherwise: under KIP-848 it is
// theirs to say, and so is how often a member reports.
const brokersSession = 45 * time.Second
