package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/e2e/history"
)

// fault is one thing that goes wrong. It returns at once or when it is over.
type fault struct {
	name   string
	weight int
	do     func(w *world)
}

var faults = []fault{
	{"worker killed", 4, func(w *world) { w.killWorker() }},
	{"worker stands still", 7, func(w *world) { w.pauseWorker() }},
	{"worker stops", 3, func(w *world) { w.stopWorker() }},
	{"worker joins", 3, func(w *world) { w.join() }},
	{"connections cut", 2, func(w *world) { w.cut() }},
	{"commit answered with an error", 4, func(w *world) { w.failCommits() }},
	{"commit's answer lost", 2, func(w *world) {
		w.fail(kmsg.OffsetCommit, kerr.RequestTimedOut, 1+w.intN(3))
	}},
	{"coordinator moves", 2, func(w *world) { w.cluster.RehashCoordinators() }},
	{"leaders move", 2, func(w *world) { w.cluster.ShufflePartitionLeaders() }},
	{"heartbeat answered with an error", 2, func(w *world) { w.failHeartbeats() }},
	{"fetch answered with an error", 1, func(w *world) {
		w.fail(kmsg.Fetch, choose(w, kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.UnknownLeaderEpoch), 1+w.intN(5))
	}},
	{"produce answered with an error", 2, func(w *world) {
		w.fail(kmsg.Produce, choose(w, kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.MessageTooLarge), 1+w.intN(3))
	}},
	{"acknowledgements of the store lost", 3, func(w *world) {
		w.data.lose(2 + w.intN(6))
		w.later(time.Duration(2+w.intN(8))*time.Second, func() { w.data.lose(0) })
	}},
	{"store away for a while", 2, func(w *world) { w.data.goAway(time.Duration(1+w.intN(8)) * time.Second) }},
	{"dispatcher killed", 2, func(w *world) { w.killDispatcher() }},
	{"dispatcher stands still", 1, func(w *world) { w.pauseDispatcher() }},
	{"API killed", 1, func(w *world) { w.killAPI() }},
	{"records published twice, and foreign ones", 3, func(w *world) { w.publishStrange() }},
	{"records deleted", 1, func(w *world) { w.deleteRecords() }},
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

func choose[T any](w *world, from ...T) T { return from[w.intN(len(from))] }

// faulty reports whether faults may still happen.
func (w *world) faulty() bool { return w.rec.since() < w.plan.faultTime }

// later does something after a while.
func (w *world) later(after time.Duration, do func()) {
	w.laters.Go(func() {
		time.Sleep(after)
		do()
	})
}

// inject lets the faults of the plan happen, and returns when their time is over.
func (w *world) inject() {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	type due struct {
		at time.Duration
		f  fault
	}
	var list []due
	for range w.plan.faults {
		n := w.intN(total)
		i := 0
		for n >= faults[i].weight {
			n -= faults[i].weight
			i++
		}
		list = append(list, due{time.Duration(w.intN(int(w.plan.faultTime/time.Millisecond))) * time.Millisecond, faults[i]})
	}
	slices.SortFunc(list, func(a, b due) int { return int(a.at - b.at) })
	for _, d := range list {
		time.Sleep(d.at - w.rec.since())
		w.logger("nemesis").Info(d.f.name)
		w.rec.count("fault: " + d.f.name)
		d.f.do(w)
	}
	time.Sleep(w.plan.faultTime - w.rec.since())
}

// heal ends what still goes wrong, and sees to it that somebody is there to work.
func (w *world) heal() {
	w.laters.Wait()
	w.logger("nemesis").Info("faults are over")
	w.data.lose(0)
	w.data.goAway(0)
	w.model.setCalm()
	w.mu.Lock()
	processes := slices.Concat(w.workers, w.dispatchers)
	w.mu.Unlock()
	for _, p := range processes {
		p.resume()
	}
	if len(w.alive(&w.workers)) == 0 {
		w.add(&w.workers, w.startWorker())
	}
	if len(w.alive(&w.dispatchers)) == 0 {
		w.add(&w.dispatchers, w.startDispatcher())
	}
}

func (w *world) add(to *[]*process, p *process) {
	w.mu.Lock()
	*to = append(*to, p)
	w.mu.Unlock()
}

// alive lists processes that run, or stand still.
func (w *world) alive(of *[]*process) []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(*of), func(p *process) bool { return p.isDead() || p.stopping.Load() })
}

func (w *world) victim(of *[]*process) *process {
	list := w.alive(of)
	if len(list) == 0 {
		return nil
	}
	return list[w.intN(len(list))]
}

// rebalancing notes what a change of the group's members meets.
func (w *world) rebalancing() {
	for _, p := range w.alive(&w.workers) {
		if w.model.inFlight(p.name) > 0 {
			w.rec.count("rebalance with work in flight")
			return
		}
	}
}

func (w *world) killWorker() {
	if p := w.victim(&w.workers); p != nil {
		w.rebalancing()
		w.murder(p)
		w.later(time.Duration(w.intN(20))*time.Second, func() {
			if len(w.alive(&w.workers)) == 0 {
				w.add(&w.workers, w.startWorker())
			}
		})
	}
}

func (w *world) pauseWorker() {
	if p := w.victim(&w.workers); p != nil {
		p.pause()
		w.later(time.Duration(1+w.intN(40))*time.Second, p.resume)
	}
}

func (w *world) stopWorker() {
	if p := w.victim(&w.workers); p != nil {
		w.rebalancing()
		p.stopping.Store(true)
		p.stop(errOver)
		w.add(&w.workers, w.startWorker())
	}
}

func (w *world) join() {
	if len(w.alive(&w.workers)) < 5 {
		w.rebalancing()
		w.add(&w.workers, w.startWorker())
	}
}

func (w *world) cut() {
	for _, p := range slices.Concat(w.alive(&w.workers), w.alive(&w.dispatchers)) {
		if p.chance(2) {
			p.cut()
		}
	}
}

func (w *world) killDispatcher() {
	if p := w.victim(&w.dispatchers); p != nil {
		w.murder(p)
		w.later(time.Duration(w.intN(10))*time.Second, func() { w.add(&w.dispatchers, w.startDispatcher()) })
	}
}

func (w *world) pauseDispatcher() {
	if p := w.victim(&w.dispatchers); p != nil {
		p.pause()
		w.later(time.Duration(1+w.intN(20))*time.Second, p.resume)
	}
}

func (w *world) killAPI() {
	next := w.startAPI()
	w.mu.Lock()
	old := w.api
	w.api = next
	w.mu.Unlock()
	w.rec.add(history.Event{Proc: old.name, Op: history.Killed, Type: history.OK})
	old.kill()
	old.stop()
}

func (w *world) fail(key kmsg.Key, err *kerr.Error, count int) {
	h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: count})
	w.rec.count("fault: " + key.Name() + " " + err.Message)
	w.later(20*time.Second, h.Remove)
}

func (w *world) failCommits() {
	w.fail(kmsg.OffsetCommit, choose(w, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable,
		kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.OffsetMetadataTooLarge, kerr.StaleMemberEpoch), 1+w.intN(3))
}

func (w *world) failHeartbeats() {
	key := kmsg.Heartbeat
	err := choose(w, kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.NotCoordinator)
	if w.plan.protocol == "consumer" {
		key, err = kmsg.ConsumerGroupHeartbeat, choose(w, kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.NotCoordinator)
	}
	w.fail(key, err, 1+w.intN(2))
}

// publishStrange writes records that the dispatcher did not: of known tasks again, of a task in another workspace, of
// none, and what is no pointer at all.
func (w *world) publishStrange() {
	var values []string
	all := w.tasks()
	pointer := func(task uuid.UUID, workspace string) string {
		b, _ := json.Marshal(map[string]any{"v": 1, "task": task, "workspace": workspace})
		return string(b)
	}
	for range min(3, len(all)) {
		t := all[w.intN(len(all))]
		values = append(values, pointer(t.ID, t.Workspace), pointer(t.ID, other(t.Workspace)))
	}
	values = append(values, "{", pointer(uuid.Max, "acme"))
	n := w.number()
	w.all.Go(func() {
		p := newProc(fmt.Sprintf("stranger-%d", n), w.seed, w.net)
		client, err := kgo.NewClient(append(p.kafka(w.cluster.ListenAddrs()), kgo.DefaultProduceTopic(topic))...)
		if err != nil {
			panic(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for i, v := range values {
			_ = client.ProduceSync(ctx, &kgo.Record{Key: []byte(fmt.Sprintf("stranger/%d", i%3)), Value: []byte(v)}).FirstErr()
		}
	})
}

// deleteRecords is retention that was too short: unread records are gone.
func (w *world) deleteRecords() {
	for _, p := range w.cluster.PartitionInfos(topic) {
		w.rec.add(history.Event{Proc: "broker", Op: history.Deleted, Type: history.OK, Partition: p.Partition, Offset: p.HighWatermark})
		if err := w.cluster.DeleteRecords(topic, p.Partition, p.HighWatermark); err != nil {
			w.rec.count("records could not be deleted")
		}
	}
}
