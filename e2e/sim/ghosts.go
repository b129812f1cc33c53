package sim

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/consumer"
)

// What kfake does not do and a broker does, seen in its groups.go as of 2026-09:
//
//   - A member whose connection breaks while its join or sync waits gets no session timer (group.reply returns before
//     updateHeartbeat), and keeps its partitions for ever.
//   - The timer of a rebalance begins anew with every join ("Always reset the timer"), so that two members which give up
//     and join again in turn keep a rebalance from ending.
//
// Both look like lost liveness of ours. The simulation does the broker's part, and only where nothing of ours could:
// members of processes that are gone, and rebalances that take three times what a rebalance may.

// rebalanceTimeout of the group: the workers' default.
const rebalanceTimeout = time.Minute

// expireGhosts takes members out of the group whose processes ended a session ago, until ctx ends.
func (w *world) expireGhosts(ctx context.Context) {
	if w.plan.protocol != consumer.ProtocolClassic {
		return
	}
	p := newProc("coordinator", w.seed, w.net)
	client, err := kgo.NewClient(p.kafka(w.cluster.ListenAddrs())...)
	if err != nil {
		panic(err)
	}
	w.all.Go(func() {
		defer client.Close()
		for ctx.Err() == nil {
			time.Sleep(time.Second)
			info := w.cluster.GroupInfo(group)
			if info == nil {
				continue
			}
			for _, m := range info.Members {
				if !w.gone(m.ClientID) {
					continue
				}
				w.rec.count("kfake: a member without a session")
				leave := kmsg.NewPtrLeaveGroupRequest()
				leave.Group = group
				member := kmsg.NewLeaveGroupRequestMember()
				member.MemberID = m.MemberID
				leave.Members = append(leave.Members, member)
				_, _ = leave.RequestWith(ctx, client)
			}
		}
	})
}

// gone reports whether the worker ended longer ago than a session lasts.
func (w *world) gone(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.workers {
		if p.name == name {
			ended := time.Duration(p.ended.Load())
			return ended > 0 && w.rec.since() > ended+w.plan.session+2*time.Second
		}
	}
	return false
}

// unwedge restarts all workers when no rebalance ends any more.
func (w *world) unwedge() {
	w.rec.count("kfake: a rebalance that never ends")
	for _, p := range w.alive(&w.workers) {
		w.murder(p)
	}
	time.Sleep(rebalanceTimeout + time.Second)
	w.add(&w.workers, w.startWorker())
}
