package replay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/offsets"
)

type run = offsets.Run

// commit is what a worker would have committed.
func (w *world) commit(group string, partition int32, at int64, ahead ...run) {
	w.Helper()
	var set kadm.Offsets
	set.Add(kadm.Offset{Topic: w.topic, Partition: partition, At: at, LeaderEpoch: 0, Metadata: offsets.EncodeRuns(at, ahead, 4096)})
	answers, err := w.admin.CommitOffsets(context.Background(), group, set)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		w.Fatal(err)
	}
}

// committed is what the group has of partitions, all of it.
func (w *world) committed(name string) map[int32]kadm.Offset {
	w.Helper()
	list, err := w.admin.FetchOffsets(context.Background(), name)
	if err != nil {
		w.Fatal(err)
	}
	out := map[int32]kadm.Offset{}
	for p, o := range list[w.topic] {
		if o.At >= 0 {
			out[p] = o.Offset
		}
	}
	return out
}

func (w *world) rewind(name string, positions Positions, target Target, clamp bool, partitions ...int32) *Rewind {
	w.Helper()
	r, err := NewRewind(w.Context(), w.log, positions, name, partitions)
	if err == nil {
		err = r.To(w.Context(), target, clamp)
	}
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) ten(partition int32) {
	for n := range 10 {
		w.produce(partition, int64(1000+n), pointer(ref(n)))
	}
}

func TestRewindAndUndoBringBackExactlyWhatWasThere(t *testing.T) {
	for _, mode := range []string{"kafka", "postgres"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, 3)
			w.ten(0)
			w.ten(1)
			w.commit(w.topic, 0, 6, run{From: 7, To: 9})
			w.commit(w.topic, 1, 4)
			positions := &stored{settled: map[int32][]run{}}
			if mode == "postgres" {
				positions.settled[0] = []run{{From: 0, To: 6}, {From: 7, To: 9}}
				positions.settled[1] = []run{{From: 0, To: 5}} // the commit follows
			}
			commits, settled := w.committed(w.topic), map[int32][]run{0: positions.settled[0], 1: positions.settled[1]}
			r := w.rewind(w.topic, positions, Start(), false)
			plan, err := r.Plan(t.Context(), newStore())
			if err != nil {
				t.Fatal(err)
			}
			if plan.Partitions[0].Records != 6 || plan.Partitions[0].From != 6 || plan.Partitions[2].From != -1 || plan.Tasks.Missing != 6 {
				t.Errorf("plan %+v", plan)
			}
			path := filepath.Join(t.TempDir(), "undo.json")
			if err := r.Execute(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			for p := range int32(3) {
				if o, ok := w.committed(w.topic)[p]; !ok || o.At != 0 || o.Metadata != "" {
					t.Errorf("partition %d: %+v, want 0 and nothing ahead", p, o)
				}
				if mode == "postgres" && len(positions.settled[p]) != 0 {
					t.Errorf("partition %d is settled in %v", p, positions.settled[p])
				}
			}
			name, topic, partitions, err := Undo(path)
			if err != nil || name != w.topic || topic != w.topic || !slices.Equal(partitions, []int32{0, 1, 2}) {
				t.Fatalf("%s, %s, %v, %v", name, topic, partitions, err)
			}
			back, err := NewRewind(t.Context(), w.log, positions, name, partitions)
			if err == nil {
				err = back.Restore(path)
			}
			if err == nil {
				err = back.Execute(t.Context(), path+".2")
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := w.committed(w.topic); !reflect.DeepEqual(got, commits) {
				t.Errorf("committed %+v, want %+v", got, commits)
			}
			for p, runs := range settled {
				if !slices.Equal(positions.settled[p], runs) {
					t.Errorf("partition %d is settled in %v, want %v", p, positions.settled[p], runs)
				}
			}
			if again, err := NewRewind(t.Context(), w.log, positions, name, partitions); err != nil || again.Restore(path) != nil || again.Moves() {
				t.Errorf("it would move once more (%v)", err)
			}
		})
	}
}

func TestAMoveForwardsKeepsWhatIsSettledAheadAndOneBackForgetsIt(t *testing.T) {
	before := Kept{Committed: 4, LeaderEpoch: 3, Metadata: offsets.EncodeRuns(4, []run{{From: 6, To: 8}, {From: 10, To: 12}}, 4096), Stored: true,
		Settled: []run{{From: 0, To: 4}, {From: 6, To: 8}, {From: 10, To: 12}}}
	if at := before.Position(); at != 4 {
		t.Fatalf("position %d", at)
	}
	for offset, want := range map[int64]struct{ settled, ahead []run }{
		7: {[]run{{From: 0, To: 7}, {From: 10, To: 12}}, []run{{From: 10, To: 12}}},
		9: {[]run{{From: 0, To: 9}, {From: 10, To: 12}}, []run{{From: 10, To: 12}}},
		2: {[]run{{From: 0, To: 2}}, nil},
		0: {nil, nil},
	} {
		after := before.at(offset, 4096)
		ahead, err := offsets.DecodeRuns(offset, after.Metadata)
		if err != nil || !slices.Equal(after.Settled, want.settled) || !slices.Equal(ahead, want.ahead) || after.Committed != offset || after.Position() != offset {
			t.Errorf("to %d: %+v, ahead %v, position %d, %v; want %+v", offset, after, ahead, after.Position(), err, want)
		}
	}
	for name, c := range map[string]struct {
		kept Kept
		want int64
	}{
		"nothing":                         {Kept{Committed: -1}, -1},
		"a row and nothing settled":       {Kept{Committed: -1, Stored: true}, 0},
		"the replies are ahead":           {Kept{Committed: 3, Stored: true, Settled: []run{{From: 0, To: 5}}}, 5},
		"the commit is ahead":             {Kept{Committed: 5, Stored: true, Settled: []run{{From: 0, To: 3}, {From: 4, To: 9}}}, 9},
		"metadata of another is nothing":  {Kept{Committed: 5, Metadata: "kgo-1"}, 5},
		"committed at a run of its own":   {Kept{Committed: 5, Metadata: offsets.EncodeRuns(5, []run{{From: 5, To: 8}}, 4096)}, 8},
		"settled beyond and not up to it": {Kept{Committed: -1, Stored: true, Settled: []run{{From: 3, To: 9}}}, 0},
	} {
		if got := c.kept.Position(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestARewindOfAGroupWithMembersIsRefusedAndNamesThem(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"classic": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"848":     {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.ten(0)
			w.commit(w.topic, 0, 6)
			positions := &stored{settled: map[int32][]run{0: {{From: 0, To: 6}}}}
			late := w.rewind(w.topic, positions, Start(), false, 0) // planned before the member came
			member, err := kgo.NewClient(append(append(opts, w.log.Options...), kgo.ClientID("the-worker"), kgo.ConsumerGroup(w.topic),
				kgo.ConsumeTopics(w.topic), kgo.DisableAutoCommit())...)
			if err != nil {
				t.Fatal(err)
			}
			defer member.Close()
			if f := member.PollFetches(t.Context()); f.Err() != nil {
				t.Fatal(f.Err())
			}
			var active *ActiveError
			if _, err := NewRewind(t.Context(), w.log, positions, w.topic, nil); !errors.As(err, &active) || !strings.Contains(err.Error(), "the-worker") {
				t.Errorf("%v, want the member named", err)
			}
			if err := late.Execute(t.Context(), filepath.Join(t.TempDir(), "u")); !errors.As(err, &active) || !strings.Contains(err.Error(), "the-worker") {
				t.Errorf("%v, want the member named", err)
			}
			// And if it comes at the last moment, the broker refuses.
			failed := group{w.topic, w.topic, w.admin}.commit(t.Context(), []kadm.Offset{{Topic: w.topic, At: 0, LeaderEpoch: -1}})
			if !errors.As(failed[0], &active) {
				t.Errorf("%v, want it refused", failed[0])
			}
			if o := w.committed(w.topic)[0]; o.At != 6 || positions.moves != 0 {
				t.Errorf("it moved: %+v, %d moves", o, positions.moves)
			}
		})
	}
}

func TestNothingMovesBeforeTheUndoFileIsThere(t *testing.T) {
	w := newWorld(t, 1)
	w.ten(0)
	w.commit(w.topic, 0, 6)
	positions := &stored{settled: map[int32][]run{0: {{From: 0, To: 6}}}}
	r := w.rewind(w.topic, positions, Start(), false, 0)
	taken := filepath.Join(t.TempDir(), "undo.json")
	if err := os.WriteFile(taken, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{taken, filepath.Join(t.TempDir(), "no", "such", "place")} {
		if err := r.Execute(t.Context(), path); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
	if text, _ := os.ReadFile(taken); string(text) != "precious" {
		t.Errorf("the file was written over: %s", text)
	}
	// The file is there and the replies' positions cannot be moved: the group has not moved either.
	positions.err = errors.New("no database")
	if err := r.Execute(t.Context(), taken+".2"); !errors.Is(err, positions.err) {
		t.Errorf("%v", err)
	}
	if o := w.committed(w.topic)[0]; o.At != 6 || positions.moves != 0 {
		t.Errorf("it moved: %+v, %d moves", o, positions.moves)
	}
}

// TestAPartitionWhoseCommitIsRefusedIsToldAndTheOthersAreNot: the request as a whole succeeds.
func TestAPartitionWhoseCommitIsRefusedIsToldAndTheOthersAreNot(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	options := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	client, err := kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w := &world{TB: t, topic: "t", client: client, admin: kadm.NewClient(client)}
	w.log = NewLog("t", w.admin, options)
	w.ten(0)
	w.ten(1)
	w.commit("g", 0, 6)
	w.commit("g", 1, 6)
	positions := &stored{settled: map[int32][]run{1: {{From: 0, To: 6}}}}
	r := w.rewind("g", positions, At(2), false)
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		q := req.(*kmsg.OffsetCommitRequest)
		resp := q.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, qt := range q.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = qt.Topic, qt.TopicID
			for _, qp := range qt.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				if rp.Partition = qp.Partition; qp.Partition == 1 {
					rp.ErrorCode = kerr.TopicAuthorizationFailed.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true // and partition 0 was not stored, whatever is said: it has to be read back
	})
	var partly *PartlyError
	if err := r.Execute(t.Context(), filepath.Join(t.TempDir(), "u")); !errors.As(err, &partly) {
		t.Fatalf("%v, want what stands", err)
	}
	if !errors.Is(partly.Failed[1], kerr.TopicAuthorizationFailed) || partly.Failed[0] == nil || !slices.Equal(partly.Stored, []int32{1}) || partly.To[1] != 2 {
		t.Errorf("%+v", partly)
	}
	// The same again does what is missing: a move to an offset may be repeated.
	if err := w.rewind("g", positions, At(2), false).Execute(t.Context(), filepath.Join(t.TempDir(), "u")); err != nil {
		t.Fatal(err)
	}
	if got := w.committed("g"); got[0].At != 2 || got[1].At != 2 {
		t.Errorf("%+v", got)
	}
}

func TestUndoFilesThatAreNotOfThisAreRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.ten(0)
	w.commit(w.topic, 0, 6)
	dir := t.TempDir()
	path := filepath.Join(dir, "undo.json")
	positions := &stored{settled: map[int32][]run{}}
	if err := w.rewind(w.topic, positions, Start(), false, 0).Execute(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"version":         {`"v": 1`, `"v": 2`},
		"another group":   {`"group": "` + w.topic, `"group": "other`},
		"another topic":   {`"topic_id": "`, `"topic_id": "00000000-0000-0000-0000-000000000000", "x": "`},
		"cut":             {"partitions", "partition"},
		"unknown field":   {`"v": 1`, `"v": 1, "w": 2`},
		"spans disorder":  {`"settled": null`, `"settled": [[5,6],[1,2]]`},
		"no row any more": {`"settled": null`, `"settled": [[0,6]]`},
	} {
		text := strings.Replace(string(good), change[0], change[1], 1)
		if text == string(good) {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		bad := filepath.Join(dir, "bad.json")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := NewRewind(t.Context(), w.log, positions, w.topic, []int32{0})
		if err == nil {
			err = r.Restore(bad)
		}
		if !errors.Is(err, ErrUndo) {
			t.Errorf("%s: %v, want %v", name, err, ErrUndo)
		}
	}
	// The topic was made again: the offsets mean other records.
	if _, err := w.admin.DeleteTopics(t.Context(), w.topic); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.admin.CreateTopic(t.Context(), 1, 1, nil, w.topic); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for {
		r, err := NewRewind(t.Context(), w.log, positions, w.topic, []int32{0})
		if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, ErrTopic) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if err == nil {
			err = r.Restore(path)
		}
		if !errors.Is(err, ErrUndo) {
			t.Errorf("%v, want %v", err, ErrUndo)
		}
		return
	}
}

// TestARowThatCameAfterTheFileIsSetToo: otherwise the replies' positions, which are farther, would win.
func TestARowThatCameAfterTheFileIsSetToo(t *testing.T) {
	w := newWorld(t, 1)
	w.ten(0)
	w.commit(w.topic, 0, 4, run{From: 5, To: 6})
	positions := &stored{settled: map[int32][]run{}}
	path := filepath.Join(t.TempDir(), "undo.json")
	if err := w.rewind(w.topic, positions, Start(), false, 0).Execute(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	positions.settled[0] = []run{{From: 0, To: 10}}
	r, err := NewRewind(t.Context(), w.log, positions, w.topic, []int32{0})
	if err == nil {
		err = r.Restore(path)
	}
	if err == nil {
		err = r.Execute(t.Context(), path+"2")
	}
	if err != nil || !slices.Equal(positions.settled[0], []run{{From: 0, To: 4}, {From: 5, To: 6}}) {
		t.Errorf("%v, %v", positions.settled[0], err)
	}
}
