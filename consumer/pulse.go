package consumer

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pulse knows when the group was last heard of. A client whose brokers are gone says nothing to anybody: it tries on, and
// goes on naming the partitions that it had, while another worker may have them after the session timeout.
type pulse struct {
	now     func() int64
	heard   atomic.Int64
	joining atomic.Bool // a request to join is under way; it is answered when all members have come, or the rebalance timeout is over
}

var (
	_ kgo.HookBrokerE2E   = (*pulse)(nil)
	_ kgo.HookBrokerWrite = (*pulse)(nil)
)

const joinGroup = int16(kmsg.JoinGroup)

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (p *pulse) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == joinGroup && err == nil {
		p.joining.Store(true)
		p.heard.Store(p.now())
	}
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (p *pulse) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	switch kmsg.Key(key) {
	case kmsg.JoinGroup:
		p.joining.Store(false)
	case kmsg.SyncGroup, kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat:
	default:
		return
	}
	if e2e.Err() == nil {
		p.heard.Store(p.now())
	}
}

// silent says since when the group has not been heard of, when that is longer than a member may be silent; or nil.
func (p *pulse) silent(session, rebalance time.Duration) error {
	limit := session
	if p.joining.Load() {
		limit += rebalance
	}
	if d := time.Duration(p.now() - p.heard.Load()); d > limit {
		return fmt.Errorf("no broker has answered this member of the group for %s: another worker may have its partitions", d.Round(time.Second))
	}
	return nil
}
