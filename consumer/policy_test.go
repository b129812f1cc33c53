package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// commit sets the group's position while nobody is in it.
func (w *world) commit(partition int32, at int64, metadata string) {
	w.t.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	resp, err := w.admin.CommitOffsets(w.t.Context(), group, o)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func begun(t *testing.T, run *worker, want string) {
	t.Helper()
	eventually(t, "the partition begins: "+want, func() bool {
		p := run.Partitions()
		return len(p) == 1 && p[0].Begin == want
	})
}

func TestBeginsWithoutACommitAtTheLogsStart(t *testing.T) {
	w := newWorld(t, 1)
	id := w.send(0, "c", "m")
	run := w.start("w1")
	begun(t, run, "no_commit")
	w.finished(id, tasks.StatusCompleted)
}

func TestBeginsAtTheLogsStartWhenRetentionTookUnreadRecords(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 10 {
		w.send(0, fmt.Sprint(i), "gone")
	}
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: topic, Partition: 0, At: 8})
	if _, err := w.admin.DeleteRecords(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.commit(0, 3, "")
	id := w.send(0, "c", "m")
	run := w.start("w1")
	begun(t, run, "below_start")
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "all is committed", func() bool { return w.committed(0) == 11 })
	if n := w.model.called("gone"); n != 2 {
		t.Errorf("%d calls for the two records that were left", n)
	}
}

func TestBeginsAtTheLogsStartWhenTheCommitIsBeyondItsEnd(t *testing.T) {
	w := newWorld(t, 1)
	first := w.send(0, "a", "m")
	w.commit(0, 500, "")
	run := w.start("w1")
	begun(t, run, "beyond_end")
	w.finished(first, tasks.StatusCompleted)
	eventually(t, "the position is that of the log again", func() bool { return w.committed(0) == 1 })
}

func TestForeignMetadataIsIgnored(t *testing.T) {
	w := newWorld(t, 1)
	ids := []uuid.UUID{w.send(0, "a", "one"), w.send(0, "b", "two")}
	w.commit(0, 1, "some-other-tool:\xff")
	w.start("w1")
	w.finished(ids[1], tasks.StatusCompleted)
	eventually(t, "committed", func() bool { return w.committed(0) == 2 })
	if w.model.called("one") != 0 {
		t.Error("a record below the position was worked")
	}
}

func TestPartitionsThatAreAddedAreReadFromTheirStart(t *testing.T) {
	w := newWorld(t, 1)
	run := w.start("w1")
	eventually(t, "joined", func() bool { return len(run.Partitions()) == 1 })
	if _, err := w.admin.CreatePartitions(t.Context(), 1, topic); err != nil {
		t.Fatal(err)
	}
	w.client.ForceMetadataRefresh()
	id := w.submit("c", "m")
	eventually(t, "the new partition takes records", func() bool {
		md, err := w.admin.Metadata(context.Background(), topic)
		return err == nil && len(md.Topics[topic].Partitions) == 2
	})
	w.publish(1, "c", id)
	// The worker learns of it with its next look at the topic, within a minute at the latest; a restart is at once.
	run.shutdown(t)
	w.start("w2")
	w.finished(id, tasks.StatusCompleted)
}

// A workspace that may have two calls at once has no third one, over two partitions, and holds up nobody else: also while
// it is all that a partition has.
func TestAWorkspaceHasItsSlotsAndNoMore(t *testing.T) {
	w := newWorld(t, 2)
	var open []func()
	var ids []uuid.UUID
	for i := range 6 {
		content := fmt.Sprintf("busy %d", i)
		open = append(open, w.model.gate(content))
		ids = append(ids, w.send(int32(i%2), fmt.Sprintf("c%d", i), content))
	}
	w.start("one", func(c *consumer.Config) { c.MaxInFlightPerWorkspace = 2 })
	eventually(t, "two calls are open", func() bool { return w.model.open.Load() == 2 })
	quiet := w.submit("q", "quiet", func(s *tasks.Submission) { s.Workspace = "small" })
	w.produce(1, "small/q", `{"v":1,"task":"`+quiet.String()+`","workspace":"small"}`)
	eventually(t, "the other workspace has its reply", func() bool {
		task, err := w.store.Task(t.Context(), "small", quiet)
		return err == nil && task.Status == tasks.StatusCompleted
	})
	if n := w.model.open.Load(); n != 2 {
		t.Errorf("%d calls are open", n)
	}
	for _, o := range open {
		o()
	}
	for _, id := range ids {
		w.finished(id, tasks.StatusCompleted)
	}
	eventually(t, "everything is committed", func() bool { return w.committed(0)+w.committed(1) == 7 })
}

func TestAWorkspaceThatFloodsLeavesTheOthersTheirShare(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 300 {
		w.send(0, fmt.Sprint("f", i), "flood")
	}
	quiet := w.submit("q", "quiet", func(s *tasks.Submission) { s.Workspace = "small" })
	w.produce(0, "small/q", `{"v":1,"task":"`+quiet.String()+`","workspace":"small"}`)
	w.model.on("flood", func(context.Context, int) (llm.Answer, error) {
		time.Sleep(20 * time.Millisecond)
		return answer("ok"), nil
	})
	w.start("w1", func(c *consumer.Config) { c.MaxInFlight = 2 })
	eventually(t, "the small workspace has its reply", func() bool {
		task, err := w.store.Task(t.Context(), "small", quiet)
		return err == nil && task.Status == tasks.StatusCompleted
	})
	if n := w.model.called("flood"); n > 100 {
		t.Errorf("%d of 300 flooding tasks came before it", n)
	}
}

func TestALongConversationLeavesTheOthersTheirTurn(t *testing.T) {
	w := newWorld(t, 1)
	open := w.model.gate("long")
	defer open()
	for range 500 {
		w.send(0, "long", "long")
	}
	other := w.send(0, "other", "other")
	w.start("w1", func(c *consumer.Config) { c.MaxInFlight = 4 })
	w.finished(other, tasks.StatusCompleted)
	if n := w.model.called("long"); n != 1 {
		t.Errorf("%d calls of one conversation at once", n)
	}
}

func TestACallThatNeverEndsIsGivenUp(t *testing.T) {
	w := newWorld(t, 1)
	release := make(chan struct{})
	w.model.on("stuck", func(_ context.Context, n int) (llm.Answer, error) {
		if n == 1 {
			<-release // deaf to its context
		}
		return answer("at last"), nil
	})
	id := w.send(0, "c", "stuck")
	next := w.send(0, "c", "next")
	w.start("w1", func(c *consumer.Config) {
		c.CallTimeout, c.Lease, c.MaxInFlight = 200*time.Millisecond, 400*time.Millisecond, 1
	})
	w.finished(id, tasks.StatusCompleted)
	w.finished(next, tasks.StatusCompleted)
	if task := w.task(id); task.Attempts != 2 || task.Interruptions != 1 {
		t.Errorf("attempts %d, interruptions %d", task.Attempts, task.Interruptions)
	}
	close(release)
	// I7: what the first call brings in the end is in the ledger, and not the reply.
	eventually(t, "the late answer is in the ledger", func() bool {
		attempts, err := w.store.Attempts(t.Context(), workspace, id)
		return err == nil && len(attempts) == 2 && attempts[0].Outcome == tasks.AttemptNotAccepted && attempts[0].OutputTokens != nil
	})
	eventually(t, "both records are committed", func() bool { return w.committed(0) == 2 })
}

func TestAStopDoesNotWaitForEverForADeafCall(t *testing.T) {
	w := newWorld(t, 1)
	release := make(chan struct{})
	defer close(release)
	w.model.on("deaf", func(context.Context, int) (llm.Answer, error) {
		<-release
		return answer("too late"), nil
	})
	w.send(0, "c", "deaf")
	run := w.start("w1", func(c *consumer.Config) { c.DrainTimeout = 50 * time.Millisecond })
	eventually(t, "the call is open", func() bool { return w.model.open.Load() == 1 })
	run.shutdown(t)
	if w.committed(0) > 0 {
		t.Error("the unfinished record was committed")
	}
}
