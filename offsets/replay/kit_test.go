package replay

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/offsets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(broker.Main(m)) }

// world is a topic on a real broker.
type world struct {
	testing.TB
	client *kgo.Client
	admin  *kadm.Client
	topic  string
	log    *Log
}

func newWorld(t testing.TB, partitions int) *world {
	t.Helper()
	b := broker.Shared(t)
	w := &world{TB: t, topic: broker.Topic(t, b, partitions)}
	options := []kgo.Opt{kgo.SeedBrokers(b.Addrs...), kgo.MetadataMinAge(100 * time.Millisecond)}
	var err error
	w.client, err = kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.admin = kadm.NewClient(w.client)
	w.log = NewLog(w.topic, w.admin, options)
	return w
}

func ref(n int) Ref { return Ref{Task: uuid.UUID{0: 1, 14: byte(n >> 8), 15: byte(n)}, Workspace: "w"} }

func pointer(r Ref) string {
	return `{"v":1,"task":"` + r.Task.String() + `","workspace":"` + r.Workspace + `"}`
}

// produce writes values to a partition, each with a timestamp of so many seconds.
func (w *world) produce(partition int32, seconds int64, values ...string) {
	w.Helper()
	for i, v := range values {
		r := &kgo.Record{Topic: w.topic, Partition: partition, Value: []byte(v), Timestamp: time.Unix(seconds+int64(i), 0)}
		if err := w.client.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) bounds() map[int32]Bounds {
	w.Helper()
	_, b, err := w.log.Describe(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// items of a source, which must not fail.
func items(t testing.TB, seq iter.Seq2[Item, error]) (all []Item) {
	t.Helper()
	for item, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, item)
	}
	return all
}

func asSource(list []Item) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, i := range list {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// store is a store of tasks that counts re-arms, and fails when it is told to.
type store struct {
	status map[Ref]string // failed ones are re-armed
	armed  map[Ref]int
	priced map[Ref]int64
	model  string
	cursor Cursor
	steps  []Step
	looks  int
	fail   func(step int) error
}

func newStore() *store {
	return &store{status: map[Ref]string{}, armed: map[Ref]int{}, priced: map[Ref]int64{}, model: "m"}
}

func (s *store) Look(_ context.Context, refs []Ref) ([]State, error) {
	s.looks++
	var out []State
	for _, r := range refs {
		state := State{Status: s.status[r], Rearm: s.status[r] == "failed" && s.armed[r] == 0, Model: s.model}
		if p, ok := s.priced[r]; ok {
			state.Priced, state.PicoUSD = 1, p
		}
		out = append(out, state)
	}
	return out, nil
}

func (s *store) Rearm(_ context.Context, step Step) (int64, error) {
	if s.fail != nil {
		if err := s.fail(len(s.steps)); err != nil {
			return 0, err
		}
	}
	s.steps = append(s.steps, step)
	s.cursor = step.Cursor
	n := int64(0)
	for _, r := range step.Refs {
		if s.armed[r] == 0 {
			n++
		}
		s.armed[r]++
	}
	return n, nil
}

// stored are positions kept with the replies, in memory.
type stored struct {
	settled map[int32][]offsets.Run
	moves   int
	err     error
}

func (s *stored) Settled(context.Context, string, [16]byte) (map[int32][]offsets.Run, error) {
	out := map[int32][]offsets.Run{}
	for p, runs := range s.settled {
		out[p] = slices.Clone(runs)
	}
	return out, nil
}

func (s *stored) Move(_ context.Context, moves []offsets.Move) error {
	if s.err != nil {
		return s.err
	}
	for _, m := range moves {
		if !slices.Equal(s.settled[m.Partition], m.Was) {
			return context.DeadlineExceeded
		}
		s.settled[m.Partition] = m.To
		s.moves++
	}
	return nil
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
