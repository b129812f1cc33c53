package consumer_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/consumer"
)

// TestReadyNoticesThatTheBrokersAreGone: the client goes on naming its partitions, while nobody keeps them for it.
func TestReadyNoticesThatTheBrokersAreGone(t *testing.T) {
	w := newWorld(t, 1)
	run := w.start("a", func(c *consumer.Config) {
		c.SessionTimeout, c.RebalanceTimeout, c.DrainTimeout = time.Second, 2*time.Second, time.Second
	})
	eventually(t, "joined", func() bool { return run.Ready() == nil && len(run.Partitions()) == 1 })
	var gone atomic.Bool
	gone.Store(true)
	w.cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		return nil, errors.New("gone"), gone.Load()
	})
	eventually(t, "the silence is noticed", func() bool { return run.Ready() != nil })
	gone.Store(false)
	eventually(t, "it is in the group again", func() bool { return run.Ready() == nil })
}
