package consumer

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSilenceOfTheGroup(t *testing.T) {
	var now time.Duration
	p := &pulse{now: func() int64 { return int64(now) }}
	answered := func(key kmsg.Key, err error) {
		p.OnBrokerE2E(kgo.BrokerMetadata{}, key.Int16(), kgo.BrokerE2E{ReadErr: err})
	}
	silent := func(want bool) {
		t.Helper()
		if err := p.silent(10*time.Second, time.Minute); (err != nil) != want {
			t.Errorf("after %s: %v, want silence %t", now, err, want)
		}
	}
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat} {
		now += time.Hour
		silent(true)
		answered(key, errors.New("closed"))
		silent(true)
		answered(kmsg.Fetch, nil) // another broker may well be there
		silent(true)
		answered(key, nil)
		silent(false)
		now += 10 * time.Second
		silent(false)
		now++
		silent(true)
	}
	// A request to join may wait for as long as a rebalance takes.
	p.OnBrokerWrite(kgo.BrokerMetadata{}, joinGroup, 1, 0, 0, errors.New("closed"))
	silent(true)
	p.OnBrokerWrite(kgo.BrokerMetadata{}, joinGroup, 1, 0, 0, nil)
	now += 70 * time.Second
	silent(false)
	now++
	silent(true)
	p.OnBrokerWrite(kgo.BrokerMetadata{}, joinGroup, 1, 0, 0, nil)
	answered(kmsg.JoinGroup, nil) // from here on it is a member like any other
	now += 10*time.Second + 1
	silent(true)
	p.OnBrokerWrite(kgo.BrokerMetadata{}, kmsg.Heartbeat.Int16(), 1, 0, 0, nil) // writing alone is no sign of life
	silent(true)
}
