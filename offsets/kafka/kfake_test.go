package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/offsets"
)

const topic = "tasks"

func cluster(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// commitRequests counts the commits that reach the cluster.
func commitRequests(c *kfake.Cluster) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1})
}

func runs(pairs ...int64) (rs []offsets.Run) {
	for i := 0; i+1 < len(pairs); i += 2 {
		rs = append(rs, offsets.Run{From: pairs[i], To: pairs[i+1]})
	}
	return rs
}

func TestResumeSaysWhatWasCommitted(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	if committed, ahead := m.com.Resume(topic, 0); committed != -1 || ahead != nil {
		t.Errorf("before any commit: %d, %v", committed, ahead)
	}
	ahead := runs(12, 20, 25, 26)
	if err := m.commit(0, 10, ahead...); err != nil {
		t.Fatal(err)
	}
	if err := m.commit(1, 7); err != nil {
		t.Fatal(err)
	}
	info := c.GroupInfo(group).Commits[topic]
	if got := info[0]; got.Offset != 10 || got.LeaderEpoch != 0 || got.Metadata != offsets.EncodeRuns(10, ahead, 4096) {
		t.Errorf("stored %+v", got)
	}
	if got := info[1]; got.Offset != 7 || got.Metadata != "" {
		t.Errorf("stored %+v, want no metadata where nothing is ahead", got)
	}
	m.cl.Close()

	m = owner(t, c.ListenAddrs(), topic, Config{})
	if committed, got := m.com.Resume(topic, 0); committed != 10 || !slices.Equal(got, ahead) {
		t.Errorf("after a restart: %d, %v, want 10, %v", committed, got, ahead)
	}
	if committed, got := m.com.Resume(topic, 0); committed != -1 || got != nil {
		t.Errorf("asked twice: %d, %v, want nothing", committed, got)
	}
	if committed, got := m.com.Resume(topic, 1); committed != 7 || got != nil {
		t.Errorf("partition 1: %d, %v", committed, got)
	}
}

func TestLeaderEpochIsCommitted(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	item := m.item(0, 10)
	item.Position.LeaderEpoch = 5
	if err := m.com.Commit(t.Context(), m.id(), []offsets.Commit{item})[0]; err != nil {
		t.Fatal(err)
	}
	if got := c.GroupInfo(group).Commits[topic][0]; got.LeaderEpoch != 5 {
		t.Errorf("stored %+v, want epoch 5", got)
	}
}

// The broker would accept it: franz-go puts the current member id on a commit, whatever id its records were read under.
func TestI2_CommitOfAnotherMembershipIsNotSent(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	if err := m.commit(0, 40); err != nil {
		t.Fatal(err)
	}
	sent := commitRequests(c)
	for _, id := range []string{"the-member-it-was", ""} {
		errs := m.com.Commit(t.Context(), id, []offsets.Commit{m.item(0, 50), m.item(1, 50)})
		for _, err := range errs {
			if !errors.Is(err, offsets.ErrNotOwner) {
				t.Errorf("member %q: %v, want ErrNotOwner", id, err)
			}
		}
	}
	if sent.Hits() != 0 {
		t.Errorf("%d requests reached the broker", sent.Hits())
	}
	if got := c.GroupInfo(group).Commits[topic][0].Offset; got != 40 {
		t.Errorf("position %d, want 40", got)
	}
}

// A client that has not joined puts an empty id on its commit, and a broker takes it where the group is empty.
func TestI2_CommitWithoutMembershipIsNotSent(t *testing.T) {
	c := cluster(t)
	m := join(t, c.ListenAddrs(), "no-such-topic", Config{}) // so it never joins
	sent := commitRequests(c)
	m.topic = topic
	if err := m.commit(0, 50); !errors.Is(err, offsets.ErrNotOwner) {
		t.Errorf("outcome %v, want ErrNotOwner", err)
	}
	if sent.Hits() != 0 {
		t.Errorf("%d requests reached the broker", sent.Hits())
	}
}

// Removed from the group and joined again without a callback, the member has read its positions anew: what it committed
// in its former life says nothing about them.
func TestAnotherMembershipStartsOver(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{}, kgo.HeartbeatInterval(time.Minute))
	was := m.id()
	if err := m.commit(0, 40); err != nil {
		t.Fatal(err)
	}
	if err := removeClassic(t, m.cl, group, was); err != nil {
		t.Fatal(err)
	}
	if err := m.commit(0, 41); !errors.Is(err, offsets.ErrNotOwner) {
		t.Fatalf("outcome %v, want ErrNotOwner", err)
	}
	m.awaitOtherID(was)
	commitSoon(t, m, 30)
	if len(m.assigned) > 0 {
		t.Error("the positions were fetched anew; this test shows nothing")
	}
}

func TestI2_PositionNeverGoesBack(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	if err := m.commit(0, 40); err != nil {
		t.Fatal(err)
	}
	sent := commitRequests(c)
	if err := m.commit(0, 39); !errors.Is(err, offsets.ErrRegress) {
		t.Errorf("back: %v, want ErrRegress", err)
	}
	if sent.Hits() != 0 {
		t.Errorf("%d requests reached the broker", sent.Hits())
	}
	if err := m.commit(0, 40, runs(42, 43)...); err != nil {
		t.Errorf("same position, more ahead: %v", err)
	}
	if err := m.commit(1, 3); err != nil {
		t.Errorf("another partition: %v", err)
	}
	m.com.Forget(topic, 0)
	if err := m.commit(0, 39); err != nil {
		t.Errorf("after Forget: %v", err)
	}
}

// The same member, the same topic name, another log: it starts at 0.
func TestRecreatedTopicStartsOver(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	if err := m.commit(0, 40); err != nil {
		t.Fatal(err)
	}
	id := m.id()
	m.cl.PurgeTopicsFromClient(topic)
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateTopic(topic, 3, nil); err != nil {
		t.Fatal(err)
	}
	m.cl.AddConsumeTopics(topic)
	m.awaitAssigned()
	if m.id() != id {
		t.Fatal("the member id changed; the test shows nothing")
	}
	if committed, _ := m.com.Resume(topic, 0); committed != -1 {
		t.Errorf("committed %d, want none", committed)
	}
	if err := m.commit(0, 2); err != nil {
		t.Errorf("first commit on the new log: %v", err)
	}
}

func TestEachPartitionHasItsOwnOutcome(t *testing.T) {
	for code, want := range map[*kerr.Error]error{
		kerr.UnknownMemberID:          offsets.ErrNotOwner,
		kerr.IllegalGeneration:        offsets.ErrNotOwner,
		kerr.FencedInstanceID:         offsets.ErrNotOwner,
		kerr.FencedMemberEpoch:        offsets.ErrNotOwner,
		kerr.RebalanceInProgress:      kerr.RebalanceInProgress,
		kerr.GroupAuthorizationFailed: kerr.GroupAuthorizationFailed,
		kerr.UnknownTopicOrPartition:  kerr.UnknownTopicOrPartition,
		kerr.InvalidCommitOffsetSize:  kerr.InvalidCommitOffsetSize,
		kerr.OffsetMetadataTooLarge:   kerr.OffsetMetadataTooLarge, // of a commit that has none
	} {
		t.Run(code.Message, func(t *testing.T) {
			c := cluster(t)
			m := owner(t, c.ListenAddrs(), topic, Config{})
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Partitions: []int32{1}, Err: code, Count: -1})
			errs := m.com.Commit(t.Context(), m.id(), []offsets.Commit{m.item(0, 10), m.item(1, 11), m.item(2, 12)})
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("neighbours: %v, %v", errs[0], errs[2])
			}
			if !errors.Is(errs[1], want) || !errors.Is(errs[1], code) {
				t.Errorf("outcome %v, want %v and the broker's own code", errs[1], want)
			}
			if want != offsets.ErrNotOwner && errors.Is(errs[1], offsets.ErrNotOwner) {
				t.Errorf("outcome %v means the end of the membership", errs[1])
			}
			got := c.GroupInfo(group).Commits[topic]
			if _, moved := got[1]; moved || got[0].Offset != 10 || got[2].Offset != 12 {
				t.Errorf("stored %+v", got)
			}
		})
	}
}

// An answer that leaves a partition out is no acknowledgement; one that names its topic by id only is.
func TestOnlyAnAnswerIsAnAcknowledgement(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	c.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req := r.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		answer := kmsg.NewOffsetCommitResponseTopic()
		answer.TopicID = req.Topics[0].TopicID
		if req.Version < 10 {
			t.Errorf("version %d; this test needs one with topic ids", req.Version)
		}
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.Partition = 0
		answer.Partitions = append(answer.Partitions, p)
		resp.Topics = append(resp.Topics, answer)
		return resp, nil, true
	})
	errs := m.com.Commit(t.Context(), m.id(), []offsets.Commit{m.item(0, 10), m.item(1, 10)})
	if errs[0] != nil {
		t.Errorf("answered: %v", errs[0])
	}
	if errs[1] == nil || errors.Is(errs[1], offsets.ErrNotOwner) {
		t.Errorf("not answered: %v, want a transient error", errs[1])
	}
	if err := m.commit(1, 9); err != nil {
		t.Errorf("behind the one that was not acknowledged: %v", err)
	}
}

// STALE_MEMBER_EPOCH takes franz-go half a second, in which it waits for the heartbeat.
func TestStaleEpochIsTheEndOfTheMembership(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{}, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.StaleMemberEpoch, Count: -1})
	if err := m.commit(0, 10); !errors.Is(err, offsets.ErrNotOwner) {
		t.Errorf("outcome %v, want ErrNotOwner", err)
	}
}

func TestMetadataNeverCostsAPosition(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	var many []offsets.Run
	for o := int64(20); o < 4000; o += 2 {
		many = append(many, offsets.Run{From: o, To: o + 1})
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Partitions: []int32{0}, Err: kerr.OffsetMetadataTooLarge, Count: 1})
	sent := commitRequests(c)
	errs := m.com.Commit(t.Context(), m.id(), []offsets.Commit{m.item(0, 10, many...), m.item(1, 10, many...)})
	if errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	got := c.GroupInfo(group).Commits[topic]
	if got[0].Offset != 10 || got[0].Metadata != "" {
		t.Errorf("refused partition stored %d with %d bytes, want 10 without metadata", got[0].Offset, len(got[0].Metadata))
	}
	first := len(got[1].Metadata)
	if got[1].Offset != 10 || first < 4000 {
		t.Errorf("the other stored %d with %d bytes, want 10 with all of it", got[1].Offset, first)
	}
	before := sent.Hits()
	if err := m.commit(0, 11, many...); err != nil {
		t.Fatal(err)
	}
	if n := len(c.GroupInfo(group).Commits[topic][0].Metadata); n == 0 || n > first/2 {
		t.Errorf("then %d bytes, want some, and less than half of %d", n, first)
	}
	if got := sent.Hits() - before; got != 1 {
		t.Errorf("%d requests, want 1: the lower limit is remembered", got)
	}
	if n := m.log.count("too large"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

func TestMetadataOfOthersIsIgnored(t *testing.T) {
	c := cluster(t)
	corrupt := offsets.EncodeRuns(9, runs(11, 12), 4096) // says it is ours, for another position
	seed(t, c, kadm.Offset{Partition: 0, At: 5, Metadata: "kgo-0f0f"}, kadm.Offset{Partition: 1, At: 5, Metadata: corrupt},
		kadm.Offset{Partition: 2, At: 5})
	m := owner(t, c.ListenAddrs(), topic, Config{})
	for p := range int32(3) {
		if committed, ahead := m.com.Resume(topic, p); committed != 5 || ahead != nil {
			t.Errorf("partition %d: %d, %v, want 5 and nothing ahead", p, committed, ahead)
		}
	}
	// The partitions are read again after the member was away.
	m.cl.PurgeTopicsFromClient(topic)
	m.cl.AddConsumeTopics(topic)
	m.awaitAssigned()
	if n := m.log.count("unreadable commit metadata"); n != 1 || m.log.count("partition=1") != 1 {
		t.Errorf("corrupt metadata was logged %d times, want once; foreign never", n)
	}
}

// seed commits into an empty group, as an operator's tool does.
func seed(t *testing.T, c *kfake.Cluster, list ...kadm.Offset) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var all kadm.Offsets
	for _, o := range list {
		o.Topic, o.LeaderEpoch = topic, -1
		all.Add(o)
	}
	if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), group, all); err != nil {
		t.Fatal(err)
	}
}

func TestItemsThatCannotBeCommittedFailAlone(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	errs := m.com.Commit(t.Context(), m.id(), []offsets.Commit{
		m.item(0, 10), m.item(0, 12), m.item(1, -1), {Topic: topic, Partition: 2, Position: offsets.NewTracker().Position()},
		{Topic: "no-such-topic", Position: offsets.Position{Offset: 1}}})
	if errs[0] != nil {
		t.Errorf("good item: %v", errs[0])
	}
	for i, err := range errs[1:4] {
		if !errors.Is(err, offsets.ErrInvalid) {
			t.Errorf("item %d: %v, want ErrInvalid", i+1, err)
		}
	}
	if errs[4] == nil || errors.Is(errs[4], offsets.ErrNotOwner) {
		t.Errorf("unknown topic: %v, want a transient error", errs[4])
	}
	got := c.GroupInfo(group).Commits[topic]
	if len(got) != 1 || got[0].Offset != 10 {
		t.Errorf("stored %+v, want partition 0 at 10 alone", got)
	}
	if errs := m.com.Commit(t.Context(), m.id(), nil); len(errs) != 0 {
		t.Errorf("nothing to commit: %v", errs)
	}
}

// hold makes the next commit request wait in the broker until release is called.
func hold(t *testing.T, c *kfake.Cluster) (arrived chan struct{}, release func()) {
	arrived, gate := make(chan struct{}), make(chan struct{})
	var one atomic.Bool
	c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		if !one.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		close(arrived)
		c.SleepControl(func() { <-gate })
		return nil, nil, false // then treated as usual
	})
	var released bool
	release = func() {
		if !released {
			released = true
			close(gate)
		}
	}
	t.Cleanup(release)
	return arrived, release
}

// A commit whose answer does not come may have been made. It must not be made later, over the one that came after it.
func TestI2_UnansweredCommitDoesNotOvertake(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{Timeout: 300 * time.Millisecond})
	arrived, release := hold(t, c)
	err := m.commit(0, 10)
	if err == nil || !strings.Contains(err.Error(), "not answered in time") || errors.Is(err, offsets.ErrNotOwner) {
		t.Fatalf("outcome %v, want a transient one that says what happened", err)
	}
	<-arrived
	release()
	deadline := time.Now().Add(20 * time.Second)
	for err = m.commit(0, 20); err != nil && time.Now().Before(deadline); {
		err = m.commit(0, 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := c.GroupInfo(group).Commits[topic][0].Offset; got != 20 {
		t.Errorf("position %d, want 20", got)
	}
}

func TestOneCommitAtATime(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{})
	sent := commitRequests(c)
	arrived, release := hold(t, c)
	first := make(chan error, 1)
	go func() { first <- m.commit(0, 10) }()
	<-arrived

	// franz-go would wait for the first one whatever becomes of the context.
	why := errors.New("not needed any more")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
	defer cancel()
	second := make(chan error, 1)
	go func() { second <- m.com.Commit(ctx, m.id(), []offsets.Commit{m.item(1, 5)})[0] }()
	select {
	case err := <-second:
		if !errors.Is(err, why) {
			t.Errorf("waiting for its turn: %v, want the cause", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the second waits for the first longer than it has time")
	}
	release()
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	if sent.Hits() != 1 {
		t.Errorf("%d requests, want only the first", sent.Hits())
	}
	if err := m.commit(1, 5); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestUnboundCommitterCommitsNothing(t *testing.T) {
	com := New(Config{Group: group})
	errs := com.Commit(t.Context(), "someone", []offsets.Commit{{Topic: topic, Position: offsets.Position{Offset: 1}}})
	if errs[0] == nil {
		t.Error("no error")
	}
}

// The broker answers REQUEST_TIMED_OUT after it has stored the commit.
func TestTimeoutCodeIsTransient(t *testing.T) {
	c := cluster(t)
	m := owner(t, c.ListenAddrs(), topic, Config{Timeout: time.Second})
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: -1})
	err := m.commit(0, 10)
	if err == nil || errors.Is(err, offsets.ErrNotOwner) || errors.Is(err, offsets.ErrRegress) {
		t.Errorf("outcome %v, want a transient error", err)
	}
	f.Remove()
	if err := m.commit(0, 10); err != nil {
		t.Errorf("again: %v", err)
	}
}

// The broker has stored the commit, and the connection breaks before its answer is read.
func TestI2_LostReplyIsRepaired(t *testing.T) {
	c := cluster(t)
	var lose atomic.Bool
	sent := commitRequests(c)
	m := owner(t, c.ListenAddrs(), topic, Config{}, kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
		return &deafConn{Conn: conn, lose: &lose}, err
	}))
	lose.Store(true)
	if err := m.commit(0, 10, runs(12, 13)...); err != nil {
		t.Fatalf("outcome %v; franz-go sends it again", err)
	}
	if lose.Load() || sent.Hits() != 2 {
		t.Errorf("%d requests, want 2: the reply was to be lost", sent.Hits())
	}
	if got := c.GroupInfo(group).Commits[topic][0]; got.Offset != 10 || got.Metadata == "" {
		t.Errorf("stored %+v", got)
	}
	if err := m.commit(0, 11); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// deafConn breaks when the answer to an OffsetCommit arrives, once.
type deafConn struct {
	net.Conn
	lose *atomic.Bool
	deaf atomic.Bool
}

func (d *deafConn) Write(b []byte) (int, error) {
	// A request is its length, then its key.
	if len(b) > 6 && binary.BigEndian.Uint16(b[4:]) == uint16(kmsg.OffsetCommit) && d.lose.CompareAndSwap(true, false) {
		d.deaf.Store(true)
	}
	return d.Conn.Write(b)
}

func (d *deafConn) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if d.deaf.Load() {
		_ = d.Close()
		return 0, io.EOF
	}
	return n, err
}
