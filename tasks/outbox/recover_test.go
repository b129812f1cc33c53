package outbox_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *recovering) recreate(partitions int32) {
	w.t.Helper()
	a := admin(w.t, w.world)
	if _, err := a.DeleteTopic(w.t.Context(), w.topic); err != nil {
		w.t.Fatal(err)
	}
	w.until("the topic is made again", func() bool {
		_, err := a.CreateTopic(w.t.Context(), partitions, 1, nil, w.topic)
		return err == nil
	})
}

func TestI3_TasksOfADeletedTopicAreHandedOffAgain(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		w.dispatch()
		first := w.worker()
		w.tasks(50)
		w.until("some are done", func() bool { first.settle(20); return len(first.read) == 50 })
		first.client.Close()
		lost := w.tasks(2300) // more than one step recovers
		w.emptied()
		w.never(0)
		w.recreate(4)
		w.until("all are recovered", func() bool { return w.recovered() == len(lost) })
		w.emptied()
		w.never(len(lost))
		r := w.reader().distinct(len(lost))
		if r.poll(); len(r.records) != len(lost) {
			t.Errorf("%d records of %d tasks", len(r.records), len(lost))
		}
	})
}

func TestI3_TasksOfDeletedRecordsAreHandedOffAgain(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		w.dispatch()
		all := w.tasks(300)
		w.emptied()
		a := admin(t, w.world)
		ends, err := a.ListEndOffsets(t.Context(), w.topic)
		if err != nil {
			t.Fatal(err)
		}
		deleted := 0
		to := kadm.Offsets{}
		ends.Each(func(end kadm.ListedOffset) {
			to.AddOffset(w.topic, end.Partition, end.Offset/2, -1)
			deleted += int(end.Offset / 2)
		})
		if _, err := a.DeleteRecords(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		w.never(0) // the others are still to be read
		k := w.worker()
		w.until("what is left is read", func() bool { k.settle(50); return len(k.read) == len(all)-deleted })
		w.until("the others are recovered and read", func() bool { k.settle(50); return len(k.read) == len(all) })
		w.never(deleted)
	})
}

func TestI3_TasksThatTheGroupWasSetPastAreHandedOffAgain(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		all := w.published(200)
		w.dispatch()
		w.never(0)
		w.commit(func(p int32, _, end int64) int64 { return end - int64(p%2) })
		w.never(0) // one record each of some partitions is still to be read
		w.commit(func(_ int32, _, end int64) int64 { return end })
		w.recoveredAll(len(all))
	})
}

func TestI3_ALostHandoffIsStoredAgain(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		all := w.tasks(60)
		lost := all[20:30]
		if _, err := w.pool.Exec(t.Context(), `delete from handoffs where task_id = any($1)`, lost); err != nil {
			t.Fatal(err)
		}
		w.dispatch()
		k := w.worker()
		w.until("all are read", func() bool { k.settle(10); return len(k.read) == len(all) })
		w.never(len(lost))
		if slices.Max(slices.Collect(maps.Values(k.read))) != 1 {
			t.Error("a record came twice")
		}
	})
}

// TestABacklogIsNotHandedOffAgain reads a long backlog slowly, beside dispatchers that look all the time.
func TestABacklogIsNotHandedOffAgain(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		w.dispatch()
		all := w.tasks(5000)
		w.emptied()
		w.never(0) // nobody has read anything yet
		k := w.worker()
		for len(k.read) < len(all) {
			k.settle(250)
			looks := w.looks.Load()
			w.until("it is looked", func() bool { return w.looks.Load() > looks })
			if len(k.read)%1000 < 250 {
				all = append(all, w.tasks(10)...)
			}
			if n := w.recovered(); n != 0 {
				t.Fatalf("%d tasks recovered after %d were read", n, len(k.read))
			}
		}
		w.never(0)
		if slices.Max(slices.Collect(maps.Values(k.read))) != 1 {
			t.Error("a record came twice")
		}
	})
}

// TestARecordInFlightAtTheSnapshotIsNotHandedOffAgain holds a recovery until the records that were in flight when its
// snapshot was taken are published: they are beyond the ends that it goes by.
func TestARecordInFlightAtTheSnapshotIsNotHandedOffAgain(t *testing.T) {
	w := newRecovering(newWorld(t))
	all := w.tasks(100)
	faults := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
	h := hold{make(chan struct{}), make(chan struct{})}
	w.hold.Store(&h)
	w.dispatch()
	w.await(h.looked)
	faults.Remove()
	w.emptied()
	close(h.goOn)
	w.never(0)
	if r := w.reader().distinct(len(all)); len(r.tasks) != len(all) {
		t.Errorf("%d tasks published, want %d", len(r.tasks), len(all))
	}
}

// TestARecordThatIsNotSettledKeepsItsTask: the worker waits with it for a retry, or for another's lease.
func TestARecordThatIsNotSettledKeepsItsTask(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		all := w.published(100)
		retried, live, dead := all[10], all[20], all[30]
		a := w.claim(retried, time.Hour)
		live, dead = w.claim(live, time.Hour).TaskID, w.claim(dead, time.Millisecond).TaskID
		w.retry(a)
		w.complete(slices.DeleteFunc(slices.Clone(all), func(id uuid.UUID) bool { return id == retried || id == live || id == dead })...)
		behind := w.partitionOf(retried)
		w.commit(func(p int32, start, end int64) int64 {
			if p == behind {
				return start
			}
			return end
		})
		w.dispatch()
		w.never(0)
		// Settled by a defect: those that are due are lost, the one that runs is not.
		w.commit(func(_ int32, _, end int64) int64 { return end })
		w.recoveredAll(2)
		r := w.reader()
		w.until("they are published again", func() bool { r.poll(); return len(r.records) == len(all)+2 })
	})
}

func TestTwoDispatchersRecoverOnce(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		all := w.published(1500)
		w.dispatch()
		w.dispatch()
		w.never(0)
		w.commit(func(_ int32, _, end int64) int64 { return end })
		w.recoveredAll(len(all))
		w.emptied()
		r := w.reader().distinct(len(all))
		if r.poll(); len(r.records) != 2*len(all) {
			t.Errorf("%d records, want each task's once more", len(r.records))
		}
	})
}

// TestNothingIsHandedOffAgainWithoutAnAnswer: no answer of the brokers is taken for a group that has read everything.
func TestNothingIsHandedOffAgainWithoutAnAnswer(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.OffsetFetch, kmsg.ListOffsets} {
		t.Run(key.Name(), func(t *testing.T) {
			w := newRecovering(newWorld(t))
			all := w.published(50)
			w.commit(func(_ int32, _, end int64) int64 { return end })
			faults := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.GroupAuthorizationFailed, Count: -1})
			w.dispatch()
			w.until("it is asked", func() bool { return faults.Hits() > 3 })
			if n := w.recovered(); n != 0 {
				t.Errorf("%d tasks recovered", n)
			}
			faults.Remove()
			w.recoveredAll(len(all))
		})
	}
}
