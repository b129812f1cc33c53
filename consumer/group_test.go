package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

func TestStopDrainsAndHandsOverWithoutASecondCall(t *testing.T) {
	protocols(t, 2, func(t *testing.T, w *world) {
		open := w.model.gate("slow")
		slow := w.send(0, "c", "slow")
		behind := w.send(0, "c", "behind") // waits in the lane: not started, so not waited for
		first := w.start("w1")
		eventually(t, "the call is open", func() bool { return w.model.open.Load() == 1 })
		first.stop(errors.New("deploy"))
		eventually(t, "nothing new is started", func() bool { return first.Ready() != nil })
		second := w.start("w2")
		open()
		first.shutdown(t)
		w.finished(slow, tasks.StatusCompleted)
		w.finished(behind, tasks.StatusCompleted)
		eventually(t, "all is committed", func() bool { return w.committed(0) == 2 })
		if n := w.model.called("slow"); n != 1 {
			t.Errorf("%d calls for a task that was drained", n)
		}
		if task := w.task(behind); task.Attempts != 1 || task.Worker != "w2" {
			t.Errorf("the task behind: %d attempts, worker %q", task.Attempts, task.Worker)
		}
		second.shutdown(t)
	})
}

func TestDrainTimeoutHandsTheTaskOnAtOnce(t *testing.T) {
	protocols(t, 1, func(t *testing.T, w *world) {
		w.model.on("stuck", func(ctx context.Context, n int) (llm.Answer, error) {
			if n > 1 {
				return answer("second try"), nil
			}
			<-ctx.Done()
			return llm.Answer{}, &llm.Failure{Class: llm.Cancelled, Message: "cancelled", Err: context.Cause(ctx), Report: llm.Report{WireRequests: 1}}
		})
		id := w.send(0, "c", "stuck")
		first := w.start("w1", func(c *consumer.Config) { c.DrainTimeout, c.Lease = 200*time.Millisecond, time.Minute })
		eventually(t, "the call is open", func() bool { return w.model.open.Load() == 1 })
		second := w.start("w2", func(c *consumer.Config) { c.Lease = time.Minute })
		eventually(t, "the second has joined", func() bool { return second.Ready() == nil })
		first.shutdown(t)
		w.finished(id, tasks.StatusCompleted) // long before the lease of a minute is over
		if task := w.task(id); task.Attempts != 2 || task.Interruptions != 0 {
			t.Errorf("%d attempts, %d interruptions", task.Attempts, task.Interruptions)
		}
		eventually(t, "committed", func() bool { return w.committed(0) == 1 })
	})
}

func TestI5_RebalanceWithWorkInFlightCostsNoSecondCall(t *testing.T) {
	protocols(t, 6, func(t *testing.T, w *world) {
		var ids []uuid.UUID
		gates := make([]func(), 0, 60)
		for i := range 60 {
			content := fmt.Sprintf("m%d", i)
			gates = append(gates, w.model.gate(content))
			ids = append(ids, w.send(int32(i%6), content, content))
		}
		w.start("w1")
		eventually(t, "all calls are open", func() bool { return w.model.open.Load() == 60 })
		second := w.start("w2")
		// The first worker drains what moves: let one call after the other end while the group rebalances.
		for _, open := range gates {
			open()
			time.Sleep(time.Millisecond)
		}
		for _, id := range ids {
			w.finished(id, tasks.StatusCompleted)
		}
		eventually(t, "the second worker has its share", func() bool { return len(second.Partitions()) == 3 })
		for p := range int32(6) {
			eventually(t, "all is committed", func() bool { return w.committed(p) == 10 })
		}
		for i := range ids {
			if n := w.model.called(fmt.Sprintf("m%d", i)); n != 1 {
				t.Errorf("m%d: %d calls", i, n)
			}
		}
	})
}

func TestAStopLetsCallsGoOnBeyondTheDrain(t *testing.T) {
	protocols(t, 1, func(t *testing.T, w *world) {
		open := w.model.gate("long")
		id := w.send(0, "c", "long")
		first := w.start("w1", func(c *consumer.Config) { c.DrainTimeout, c.StopTimeout = 100*time.Millisecond, 20*time.Second })
		eventually(t, "the call is open", func() bool { return w.model.open.Load() == 1 })
		first.stop(errors.New("deploy"))
		second := w.start("w2")
		eventually(t, "the second has the partition and parks its record", func() bool {
			p := second.Partitions()
			return len(p) == 1 && p[0].InFlight == 1
		})
		open()
		first.shutdown(t)
		w.finished(id, tasks.StatusCompleted)
		eventually(t, "the second commits it", func() bool { return w.committed(0) == 1 })
		if n := w.model.called("long"); n != 1 || w.task(id).Worker != "w1" {
			t.Errorf("%d calls, reply by %q", n, w.task(id).Worker)
		}
	})
}

// A call that outlasts the drain goes on under its lease: the new owner's record waits for it.
func TestI4_CallThatOutlastsTheDrainIsWaitedForByTheNewOwner(t *testing.T) {
	protocols(t, 2, func(t *testing.T, w *world) {
		open := w.model.gate("long")
		defer open()
		long := []uuid.UUID{w.send(0, "a", "long"), w.send(1, "b", "long")}
		short := func(c *consumer.Config) { c.DrainTimeout, c.Lease = 300*time.Millisecond, 4*time.Second }
		w.start("w1", short)
		eventually(t, "both calls are open", func() bool { return w.model.open.Load() == 2 })
		second := w.start("w2", short)
		eventually(t, "the second worker owns a partition and parks its record", func() bool {
			p := second.Partitions()
			return len(p) == 1 && p[0].InFlight == 1
		})
		other := w.send(second.Partitions()[0].Partition, "other", "other")
		w.finished(other, tasks.StatusCompleted) // a parked record holds no slot
		open()
		for _, id := range long {
			w.finished(id, tasks.StatusCompleted)
			if task := w.task(id); task.Worker != "w1" || task.Version != 1 {
				t.Errorf("worker %q, version %d: the call was made again", task.Worker, task.Version)
			}
		}
		eventually(t, "the new owner commits it", func() bool { return w.committed(0)+w.committed(1) == 3 })
		if n := w.model.called("long"); n != 2 {
			t.Errorf("%d calls for two tasks", n)
		}
	})
}

func TestTakeoverWhenTheLeaseEnds(t *testing.T) {
	w := newWorld(t, 1)
	id := w.send(0, "c", "m")
	// A worker that died after its claim.
	claimed, err := w.store.Claim(t.Context(), tasks.Claimer{Worker: "dead", Lease: 700 * time.Millisecond, ParkMax: time.Minute, Provider: "model"},
		[]tasks.Ref{{TaskID: id, Workspace: workspace}})
	if err != nil || claimed[0].Decision != tasks.DecisionClaimed {
		t.Fatal(err, claimed)
	}
	w.start("w1")
	w.finished(id, tasks.StatusCompleted)
	if task := w.task(id); task.Attempts != 2 || task.Interruptions != 1 || task.Version != 2 {
		t.Errorf("attempts %d, interruptions %d, version %d", task.Attempts, task.Interruptions, task.Version)
	}
	late, err := w.store.Settle(t.Context(), []tasks.Settlement{{Assignment: claimed[0].Work.Assignment, Outcome: tasks.OutcomeComplete,
		Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Text: "late"}}})
	if err != nil || late[0].Verdict == tasks.VerdictAccepted {
		t.Errorf("late settle: %v, %v", late, err)
	}
}

func TestCancelledTaskStopsItsCall(t *testing.T) {
	w := newWorld(t, 1)
	defer w.model.gate("m")()
	id := w.send(0, "c", "m")
	w.start("w1")
	eventually(t, "the call is open", func() bool { return w.model.open.Load() == 1 })
	if _, ok, err := w.store.Cancel(t.Context(), workspace, id); err != nil || !ok {
		t.Fatal(ok, err)
	}
	eventually(t, "the call is stopped by the renewal that finds nothing", func() bool { return w.model.open.Load() == 0 })
	eventually(t, "the record is settled", func() bool { return w.committed(0) == 1 })
	if task := w.task(id); task.Status != tasks.StatusCancelled || task.Reply != nil {
		t.Errorf("task %+v", task)
	}
}

func TestSettledAheadIsNotReadAgainAfterACrash(t *testing.T) {
	protocols(t, 1, func(t *testing.T, w *world) {
		open := w.model.gate("head")
		defer open()
		head := w.send(0, "head", "head")
		for i := range 30 {
			w.send(0, fmt.Sprint(i), "ahead")
		}
		first := w.start("w1", func(c *consumer.Config) { c.DrainTimeout = 50 * time.Millisecond })
		eventually(t, "30 are settled ahead and committed as such", func() bool {
			p := first.Partitions()
			return len(p) == 1 && p[0].SettledAhead == 30 && w.metadata(0) != "" && w.model.called("ahead") == 30
		})
		eventually(t, "the metadata covers all", func() bool { return len(w.ahead(0)) == 1 && w.ahead(0)[0].To == 31 })
		first.shutdown(t)
		claims := w.counted("Claim", 0)
		w.start("w2")
		open()
		w.finished(head, tasks.StatusCompleted)
		eventually(t, "all is committed", func() bool { return w.committed(0) == 31 })
		if got := w.counted("Claim", claims); got > 5 {
			t.Errorf("%d claim batches after the restart: the settled records were claimed again", got)
		}
		if n := w.model.called("ahead"); n != 30 {
			t.Errorf("%d calls for 30 tasks", n)
		}
	})
}

// Every commit on the wire is compared with what is unfinished at that moment.
func TestI2_OnTheWireUnderChurn(t *testing.T) {
	const partitions, each = 4, 150
	protocols(t, partitions, func(t *testing.T, w *world) {
		var mu sync.Mutex
		byOffset := map[int32][]uuid.UUID{}
		w.cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
				for _, p := range topic.Partitions {
					mu.Lock()
					before := append([]uuid.UUID(nil), byOffset[p.Partition][:min(p.Offset, int64(len(byOffset[p.Partition])))]...)
					mu.Unlock()
					for offset, id := range before {
						if task, err := w.store.Task(context.Background(), workspace, id); err != nil || !task.Status.Terminal() {
							t.Errorf("partition %d committed at %d while record %d is %s (%v)", p.Partition, p.Offset, offset, task.Status, err)
						}
					}
				}
			}
			return nil, nil, false
		})
		for i := range partitions * each {
			p := int32(i % partitions)
			id := w.submit(fmt.Sprint("c", i%40), "m")
			mu.Lock()
			byOffset[p] = append(byOffset[p], id)
			mu.Unlock()
			w.publish(p, fmt.Sprint("c", i%40), id)
		}
		w.model.on("m", func(context.Context, int) (llm.Answer, error) {
			time.Sleep(time.Duration(uuid.New()[0]%8) * time.Millisecond)
			return answer("ok"), nil
		})
		quick := func(c *consumer.Config) { c.CommitInterval, c.MaxInFlight = 5*time.Millisecond, 8 }
		w.start("base", quick)
		for i := range 4 {
			extra := w.start(fmt.Sprint("extra", i), quick)
			eventually(t, "it takes part", func() bool { return len(extra.Partitions()) > 0 })
			extra.shutdown(t)
		}
		for p := range int32(partitions) {
			eventually(t, "all is committed", func() bool { return w.committed(p) == each })
		}
	})
}

func TestFullWindowPausesAndGoesOn(t *testing.T) {
	w := newWorld(t, 1)
	open := w.model.gate("m")
	defer open()
	var ids []uuid.UUID
	for i := range 400 {
		ids = append(ids, w.send(0, fmt.Sprint(i), "m"))
	}
	run := w.start("w1", func(c *consumer.Config) { c.MaxQueued, c.MaxInFlight = 20, 5 }, func(c *consumer.Config) {
		c.Kafka = append(c.Kafka, kgo.FetchMaxPartitionBytes(1024))
	})
	eventually(t, "fetching is paused", func() bool { p := run.Partitions(); return len(p) == 1 && p[0].Paused })
	open()
	for _, id := range ids {
		w.finished(id, tasks.StatusCompleted)
	}
	eventually(t, "all is committed", func() bool { return w.committed(0) == 400 })
}

func TestEvictedMemberBeginsAnewFromTheCommittedPosition(t *testing.T) {
	w := newWorld(t, 1)
	run := w.start("w1")
	eventually(t, "joined", func() bool { return run.Ready() == nil && len(run.Partitions()) == 1 })
	w.finished(w.send(0, "c", "one"), tasks.StatusCompleted)
	eventually(t, "committed", func() bool { return w.committed(0) == 1 })
	// The coordinator forgets the member; the next commit or heartbeat is told so.
	w.cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, 25 // UNKNOWN_MEMBER_ID
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	w.finished(w.send(0, "c", "two"), tasks.StatusCompleted)
	w.finished(w.send(0, "c", "three"), tasks.StatusCompleted)
	eventually(t, "committed again", func() bool { return w.committed(0) == 3 })
	for _, m := range []string{"one", "two", "three"} {
		if n := w.model.called(m); n != 1 {
			t.Errorf("%s: %d calls", m, n)
		}
	}
}

func TestStoreAwayThenBack(t *testing.T) {
	var mu sync.Mutex
	away := map[string]int{} // calls that fail, by method; the acknowledgement of the last one is lost
	w := newWorldWith(t, 1, memory.Config{Fault: func(method string, committed bool) error {
		mu.Lock()
		defer mu.Unlock()
		if n := away[method]; n > 0 && committed == (n == 1) {
			away[method]--
			return errors.New("connection reset")
		}
		return nil
	}})
	id := w.send(0, "c", "m")
	mu.Lock()
	away["Claim"], away["Settle"] = 2, 3
	mu.Unlock()
	w.start("w1", func(c *consumer.Config) { c.Lease = 700 * time.Millisecond })
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "the record is settled", func() bool { return w.committed(0) == 1 })
	// The claim whose acknowledgement was lost counts as an attempt of which nothing was heard; it made no call.
	if task := w.task(id); w.model.called("m") != 1 || task.Attempts != 2 {
		t.Errorf("%d calls, %d attempts", w.model.called("m"), task.Attempts)
	}
}

// holding is a store in which somebody holds the rows of some tasks.
type holding struct {
	tasks.Store
	held func(uuid.UUID) bool
}

func (h *holding) Settle(ctx context.Context, items []tasks.Settlement) ([]tasks.Settled, error) {
	out := make([]tasks.Settled, len(items))
	for i, item := range items {
		if h.held(item.TaskID) {
			out[i].Verdict = tasks.VerdictHeld
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
			continue
		}
		settled, err := h.Store.Settle(ctx, items[i:i+1])
		if err != nil {
			return nil, err
		}
		out[i] = settled[0]
	}
	return out, nil
}

func TestHeldRowsHoldUpNoOtherSettles(t *testing.T) {
	w := newWorld(t, 1)
	var free atomic.Bool
	held := []uuid.UUID{w.send(0, "a", "held"), w.send(0, "b", "held"), w.send(0, "c", "held")}
	w.tasks = &holding{Store: w.store, held: func(id uuid.UUID) bool { return !free.Load() && slices.Contains(held, id) }}
	w.start("w1")
	eventually(t, "the held ones are answered", func() bool { return w.model.called("held") == 3 })
	for i := range 20 { // one after the other: each would wait for the held ones
		w.finished(w.send(0, fmt.Sprint("d", i), "m"), tasks.StatusCompleted)
	}
	if n := w.committed(0); n > 0 {
		t.Errorf("committed at %d over a held record", n)
	}
	free.Store(true)
	for _, id := range held {
		w.finished(id, tasks.StatusCompleted)
	}
	eventually(t, "all is committed", func() bool { return w.committed(0) == 23 })
	if n := w.model.called("held"); n != 3 {
		t.Errorf("%d calls for 3 held tasks", n)
	}
}

func TestCommitErrorsAreTransient(t *testing.T) {
	w := newWorld(t, 1)
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: kerr.NotCoordinator, Count: 3})
	defer fault.Remove()
	id := w.send(0, "c", "m")
	w.start("w1")
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "committed in the end", func() bool { return w.committed(0) == 1 })
}

func TestASecondProcessWithTheSameInstanceIDEndsTheFirst(t *testing.T) {
	w := newWorld(t, 1)
	static := func(c *consumer.Config) { c.InstanceID = "worker-0" }
	first := w.start("w1", static)
	eventually(t, "the first has joined", func() bool { return len(first.Partitions()) == 1 })
	second := w.start("w2", static)
	select {
	case err := <-first.done:
		if err == nil || !strings.Contains(err.Error(), "instance id") {
			t.Errorf("Run: %v", err)
		}
		close(first.done)
	case <-time.After(20 * time.Second):
		t.Fatal("the first goes on")
	}
	id := w.send(0, "c", "m")
	w.finished(id, tasks.StatusCompleted)
	if len(second.Partitions()) != 1 {
		t.Error("the second does not own the partition")
	}
}

// A group that somebody keeps in a rebalance does not hold up the stop of a worker that has nothing yet.
func TestAStopDoesNotWaitForAJoin(t *testing.T) {
	w := newWorld(t, 1)
	joining, release := make(chan struct{}, 1), make(chan struct{})
	defer close(release)
	w.cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		select {
		case joining <- struct{}{}:
		default:
		}
		w.cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	one := w.start("one", func(c *consumer.Config) { c.RebalanceTimeout = 10 * time.Minute })
	<-joining
	one.shutdown(t)
}
