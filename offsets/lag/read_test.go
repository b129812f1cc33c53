package lag

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/offsets"
)

func TestReadSaysWhereEachPartitionStands(t *testing.T) {
	k := newKit(t, 4)
	k.put(0, 0, 5)
	k.put(1, 10, 15)
	k.put(2, 20, 23)
	k.commit(0, 2, run(3, 4))
	k.commit(1, 5)
	r := k.read()
	k.want(r.Partitions[0], 2, 2, 5, 3, 1, 2)
	k.want(r.Partitions[1], 5, 5, 5, 0, 0, None)
	k.want(r.Partitions[2], None, 0, 3, 3, 0, 0)
	k.want(r.Partitions[3], None, 0, 0, 0, 0, None)
	k.aged(r.Partitions[0])
	k.aged(r.Partitions[2])
	if s := r.Partitions[1].LagSeconds; s != 0 {
		t.Errorf("%v with no lag", s)
	}
	if h := r.Partitions[0].Head; h.Task != taskID(2).String() || h.Workspace != "w" || h.Attempt != nil || h.TaskStatus != "" {
		t.Errorf("head %+v", h)
	}
	if r.TotalLag != 6 || !r.Complete || r.MaxSeconds.Duration() < time.Hour || r.State != "Empty" || r.Members != 0 || r.Offsets != "kafka" {
		t.Errorf("report %+v", r)
	}
	// No member is there, and nothing has been said for two of them.
	for i, want := range []Status{Stop, OK, NoCommit, OK} {
		if got := r.Partitions[i].Status; got != want {
			t.Errorf("partition %d is %s, want %s", i, got, want)
		}
	}
	if r.Status != Stop {
		t.Errorf("all together are %s", r.Status)
	}
}

func TestReadNamesMembersOfBothProtocols(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"classic": {kgo.Balancers(kgo.CooperativeStickyBalancer())}, "consumer": {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, 3)
			k.put(1, 0, 2)
			m := k.connect(append(opts, kgo.ConsumerGroup(groupName), kgo.ConsumeTopics(topicName), kgo.DisableAutoCommit(), kgo.ClientID("w-1"))...)
			deadline := time.Now().Add(20 * time.Second)
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				m.PollFetches(ctx)
				cancel()
				r := k.read()
				if r.State == "Stable" && r.Partitions[1].Member != "" {
					p := r.Partitions[1]
					if r.Members != 1 || p.ClientID != "w-1" || p.Host == "" || r.MemberList[0].ID != p.Member || r.MemberList[0].Lag != 2 {
						t.Errorf("partition %+v, members %+v", p, r.MemberList)
					}
					if !slices.Equal(r.MemberList[0].Partitions, []int32{0, 1, 2}) {
						t.Errorf("it has %v", r.MemberList[0].Partitions)
					}
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("no member: %+v", r)
				}
			}
		})
	}
}

func TestReadWithTheStore(t *testing.T) {
	k := newKit(t, 3)
	k.put(0, 0, 10)
	k.put(1, 10, 12)
	k.put(2, 20, 21)
	k.commit(0, 2, run(6, 7))
	store := fakeStore{
		stored: []Stored{
			{Topic: topicName, TopicID: k.topicID(), Partition: 0, Settled: []offsets.Run{run(0, 4), run(5, 6)}},
			{Topic: topicName, TopicID: k.topicID(), Partition: 1, Settled: []offsets.Run{run(0, 2)}},
			{Topic: topicName, TopicID: k.topicID(), Partition: 2, Settled: nil},
			// One of a topic that is gone says nothing of this one.
			{Topic: topicName, TopicID: [16]byte{1}, Partition: 2, Settled: []offsets.Run{run(0, 1)}},
		},
		states: map[uuid.UUID]TaskState{taskID(4): {Status: "running", Attempt: 3}},
	}
	k.config.Positions, k.config.Tasks = store, store
	r := k.read()
	if r.Offsets != "postgres" {
		t.Errorf("positions are kept in %s", r.Offsets)
	}
	// Work goes on at 4; the commit has not followed yet.
	k.want(r.Partitions[0], 2, 4, 10, 8, 2, 4)
	if p := r.Partitions[0]; p.Stored != 4 || p.Head.TaskStatus != "running" || *p.Head.Attempt != 3 {
		t.Errorf("stored %d, head %+v", p.Stored, p.Head)
	}
	// All is settled where it counts, so nothing waits.
	k.want(r.Partitions[1], None, 2, 2, 2, 0, None)
	if p := r.Partitions[1]; p.LagSeconds != 0 || p.Status != OK {
		t.Errorf("%v, %s", p.LagSeconds, p.Status)
	}
	k.want(r.Partitions[2], None, 0, 1, 1, 0, 0)
	if p := r.Partitions[2]; p.Stored != 0 || p.Head.TaskStatus != "missing" {
		t.Errorf("stored %d, head %+v", p.Stored, p.Head)
	}
}

func TestReadWithoutAnAnswerOfTheStore(t *testing.T) {
	k := newKit(t, 1)
	k.put(0, 0, 1)
	store := fakeStore{err: errors.New("no connection")}
	k.config.Positions, k.config.Tasks = store, store
	r, err := Read(t.Context(), k.config)
	if err != nil {
		t.Fatal(err)
	}
	k.want(r.Partitions[0], None, 0, 1, 1, 0, 0)
	if len(r.Problems) != 2 || !strings.Contains(r.Problems[0], "no connection") {
		t.Errorf("problems %q", r.Problems)
	}
}

func TestWhereRecordsAreMissing(t *testing.T) {
	t.Run("below the log's start", func(t *testing.T) {
		k := newKit(t, 1)
		k.put(0, 0, 10)
		k.commit(0, 2)
		k.deleteBelow(6)
		k.want(k.read().Partitions[0], 2, 6, 10, 4, 0, 6)
	})
	t.Run("everything", func(t *testing.T) {
		k := newKit(t, 1)
		k.put(0, 0, 10)
		k.commit(0, 2)
		k.deleteBelow(10)
		p := k.read().Partitions[0]
		k.want(p, 2, 10, 10, 0, 0, None)
		if p.LagSeconds != 0 || p.Status != OK {
			t.Errorf("%v, %s", p.LagSeconds, p.Status)
		}
	})
	t.Run("a commit beyond the end", func(t *testing.T) {
		k := newKit(t, 1)
		k.put(0, 0, 3)
		k.commit(0, 500, run(510, 520))
		p := k.read().Partitions[0]
		k.want(p, 500, 0, 3, 3, 0, 0)
		if p.Status != Rewind {
			t.Errorf("%s", p.Status)
		}
	})
	t.Run("metadata of another tool", func(t *testing.T) {
		k := newKit(t, 1)
		k.put(0, 0, 3)
		k.commit(0, 1)
		k.want(k.read().Partitions[0], 1, 1, 3, 2, 0, 1)
	})
	t.Run("a topic that was made again", func(t *testing.T) {
		k := newKit(t, 1)
		k.put(0, 0, 5)
		k.commit(0, 4)
		first := k.read()
		if _, err := k.admin.DeleteTopics(t.Context(), topicName); err != nil {
			t.Fatal(err)
		}
		if _, err := k.admin.CreateTopic(t.Context(), 2, 1, nil, topicName); err != nil {
			t.Fatal(err)
		}
		k.client.PurgeTopicsFromProducing(topicName)
		k.put(0, 7, 9)
		r := k.read()
		if r.TopicID == first.TopicID || len(r.Partitions) != 2 {
			t.Fatalf("it is the old one: %+v", r)
		}
		k.want(r.Partitions[0], None, 0, 2, 2, 0, 0)
		if h := r.Partitions[0].Head; h.Task != taskID(7).String() {
			t.Errorf("head %+v", h)
		}
	})
}

func (k *kit) deleteBelow(offset int64) {
	k.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = topicName
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(k.Context(), k.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		k.Fatal(err)
	}
}

func TestCompactedLogs(t *testing.T) {
	compact := "compact"
	k := newKit(t, 1)
	if _, err := k.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &compact}, "compacted"); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		key := byte(n % 2)
		if n == 0 {
			key = 9 // it stays, and with it the log's start
		}
		k.produce(k.client, &kgo.Record{Topic: "compacted", Key: []byte{key}, Value: value(n)})
	}
	k.cluster.Compact()
	k.config.Topic = "compacted"
	k.commitFor(groupName, "compacted", 2)
	k.config.Exact = true
	exact := k.read().Partitions[0]
	k.config.Exact = false
	plain := k.read().Partitions[0]
	if plain.Lag != 18 || plain.Exact || !exact.Exact || exact.Lag >= 18 || exact.Lag < 2 {
		t.Fatalf("lag %d, exact %d", plain.Lag, exact.Lag)
	}
	// The record at the position is the next one that there is.
	if plain.Head == nil || plain.Head.Offset <= 2 || exact.Head == nil || exact.Head.Offset != plain.Head.Offset {
		t.Errorf("heads %+v and %+v", plain.Head, exact.Head)
	}
	k.aged(plain)
}

// TestTransactions: markers and aborted records are no work.
func TestTransactions(t *testing.T) {
	k := newKit(t, 1)
	p := k.connect(kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	transaction := func(commit kgo.TransactionEndTry, n ...int) {
		t.Helper()
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, n := range n {
			k.produce(p, &kgo.Record{Value: value(n)})
		}
		if err := p.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	transaction(kgo.TryCommit, 0, 1) // 0 1, marker 2
	transaction(kgo.TryAbort, 2, 3)  // 3 4, marker 5
	k.commit(0, 2)
	r := k.read().Partitions[0]
	k.want(r, 2, 2, 6, 0, 0, None)
	if !r.Exact || r.LagSeconds != 0 || r.Status != OK {
		t.Errorf("nothing but markers and what was aborted: %+v", r)
	}
	transaction(kgo.TryCommit, 4) // 6, marker 7
	k.want(k.read().Partitions[0], 2, 2, 8, 6, 0, 6)
	k.config.Exact = true
	k.want(k.read().Partitions[0], 2, 2, 8, 1, 0, 6)
	// A settled record behind the markers at the position is not what holds it back.
	k.put(0, 9, 10) // 8
	k.commit(0, 2, run(6, 7))
	k.want(k.read().Partitions[0], 2, 2, 9, 2, 1, 8)
	k.config.Exact = false
	k.want(k.read().Partitions[0], 2, 2, 9, 7, 1, 8)

	// One that is under way is waited for, and what waits has an age.
	if err := p.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	k.produce(p, &kgo.Record{Value: value(5)}) // 9
	k.commit(0, 9)
	open := k.read().Partitions[0]
	k.want(open, 9, 9, 10, 1, 0, 9)
	k.aged(open)
	if err := p.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// TestManyPartitionsAndLargeBatches: the one fetch of many partitions leaves no head out, whatever the batches' sizes.
func TestManyPartitionsAndLargeBatches(t *testing.T) {
	const partitions = 150
	k := newKit(t, partitions)
	large := bytes.Repeat([]byte("x"), 600<<10)
	for n := range int32(partitions) {
		if n%10 == 3 {
			k.produce(k.client, &kgo.Record{Partition: n, Value: large})
		}
		k.put(n, int(n), int(n)+2)
	}
	r := k.read()
	for _, p := range r.Partitions {
		if p.Head == nil || p.Head.Offset != 0 {
			t.Fatalf("partition %d has head %+v", p.Partition, p.Head)
		}
		if isPointer := p.Partition%10 != 3; isPointer != (p.Head.Task == taskID(int(p.Partition)).String()) {
			t.Errorf("partition %d has head %+v", p.Partition, p.Head)
		}
	}
	k.config.Exact = true
	for _, p := range k.read().Partitions {
		if !p.Exact || p.Lag != p.End {
			t.Fatalf("partition %d: %d of %d counted", p.Partition, p.Lag, p.End)
		}
	}
}

// TestAheadHidesItsRecords: where a hole is at the position, the head is not one that is settled.
func TestAheadHidesItsRecords(t *testing.T) {
	k := newKit(t, 1)
	k.put(0, 0, 6)
	k.commit(0, 1, run(2, 4), run(5, 6))
	k.want(k.read().Partitions[0], 1, 1, 6, 5, 3, 1)
	k.config.Exact = true
	k.want(k.read().Partitions[0], 1, 1, 6, 5, 3, 1)
}

func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	of := func(timestamp int64) func(kmsg.Request) bool {
		return func(r kmsg.Request) bool {
			return r.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp == timestamp
		}
	}
	for name, fault := range map[string]kfake.Fault{
		"ends":   {Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topicName, Partitions: []int32{1}, Err: kerr.KafkaStorageError, Count: -1, When: of(-1)},
		"starts": {Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topicName, Partitions: []int32{1}, Err: kerr.KafkaStorageError, Count: -1, When: of(-2)},
		"record": {Keys: []kmsg.Key{kmsg.Fetch}, Topic: topicName, Partitions: []int32{1}, Err: kerr.KafkaStorageError, Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, 2)
			k.put(0, 0, 2)
			k.put(1, 2, 4)
			k.commit(1, 1)
			k.cluster.Fault(fault)
			r, err := Read(t.Context(), k.config)
			if err != nil {
				t.Fatal(err)
			}
			p := r.Partitions[1]
			if p.Status != Unknown || p.LagSeconds.Known() || r.Complete || r.Status != Unknown || p.Why == "" {
				t.Errorf("partition %+v", p)
			}
			if name != "record" && (p.Lag != None || p.End != None || r.TotalLag != 2) {
				t.Errorf("partition %+v, total %d", p, r.TotalLag)
			}
			if q := r.Partitions[0]; q.Lag != 2 || q.Head == nil {
				t.Errorf("the other one %+v", q)
			}
		})
	}
}

func TestReadFailures(t *testing.T) {
	k := newKit(t, 1)
	k.config.Topic = "absent"
	if _, err := Read(t.Context(), k.config); !errors.Is(err, ErrNoTopic) {
		t.Errorf("absent topic: %v", err)
	}
	k.config.Topic = topicName
	k.cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Read(ctx, k.config); err == nil || errors.Is(err, ErrNoTopic) {
		t.Errorf("no broker: %v", err)
	}
}

// TestReportJSON: the names and forms that scripts rely on.
func TestReportJSON(t *testing.T) {
	attempt := 2
	r := Report{
		At: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Group: "g", Topic: "t", State: "Stable", Members: 1, Offsets: "postgres",
		Partitions: []Partition{
			{Partition: 0, Start: 0, Committed: 4, LeaderEpoch: 0, Stored: 5, Position: 5, End: 9, Lag: 5, LagSeconds: 1.23456, Status: Blocked, Why: "w",
				Member: "m", SettledAhead: 2, Rate: 0.5, ETASeconds: 10,
				Head: &Head{Offset: 5, Task: "x", Workspace: "w", AgeSeconds: 1.5, Attempt: &attempt, TaskStatus: "running"}},
			unread(1),
		},
	}
	r.Partitions[1].Status = Unknown
	r.summarize()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"at":"2026-11-30T12:00:00Z","group":"g","topic":"t","state":"Stable","members":1,"offsets":"postgres","status":"UNKNOWN","total_lag":5,"max_lag_seconds":1.235,"complete":false,"partitions":[` +
		`{"partition":0,"start":0,"committed":4,"committed_leader_epoch":0,"stored":5,"position":5,"end":9,"lag":5,"exact":false,"lag_seconds":1.235,"status":"BLOCKED","why":"w","member":"m","settled_ahead":2,"head":{"offset":5,"task":"x","workspace":"w","age_seconds":1.5,"attempt":2,"task_status":"running"},"rate":0.5,"eta_seconds":10},` +
		`{"partition":1,"start":null,"committed":null,"position":null,"end":null,"lag":null,"exact":false,"lag_seconds":null,"status":"UNKNOWN","settled_ahead":null,"head":null,"rate":null,"eta_seconds":null}]}`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(back); string(again) != want {
		t.Errorf("read back it is\n%s", again)
	}
}
