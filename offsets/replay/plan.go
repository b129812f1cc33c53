package replay

import (
	"context"
	"encoding/json"
	"iter"
	"math/big"
)

// lookBatch is how many tasks are asked for at once.
const lookBatch = 500

// Offset is a place in a log; below 0 there is none, which is null in JSON.
type Offset int64

// MarshalJSON implements json.Marshaler.
func (o Offset) MarshalJSON() ([]byte, error) {
	if o < 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int64(o))
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Offset) UnmarshalJSON(text []byte) error {
	at := int64(-1)
	if string(text) != "null" {
		if err := json.Unmarshal(text, &at); err != nil {
			return err
		}
	}
	*o = Offset(at)
	return nil
}

// Span is a part of a plan. Of a range [From, To) is read. Of a rewind From is where the group stands and To where it will,
// and Records are what lies between.
type Span struct {
	Partition int32  `json:"partition"`
	From      Offset `json:"from"`
	To        Offset `json:"to"`
	Records   int64  `json:"records"`
}

// Plan is what a replay will do. Its JSON is a contract: fields are only added.
type Plan struct {
	Kind       string `json:"kind"` // "range", "rewind" or "tasks"
	Group      string `json:"group"`
	Topic      string `json:"topic"`
	Partitions []Span `json:"partitions"`
	Tasks      Counts `json:"tasks"`
	Will       Will   `json:"will"`

	Estimate Estimate `json:"-"`
}

// Counts are of distinct tasks; Unreadable is of records.
type Counts struct {
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
	Cancelled  int64 `json:"cancelled"`
	Unfinished int64 `json:"unfinished"`
	Missing    int64 `json:"missing"`
	Unreadable int64 `json:"unreadable"`
}

// Will is what becomes of the tasks.
type Will struct {
	Rearm int64 `json:"rearm"`
	Skip  int64 `json:"skip"`
}

// Estimate is what one answer to each task that is re-armed would cost, by the average of the known answers of the tasks of the plan under the
// same model.
type Estimate struct {
	PicoUSD int64
	Unknown int64 // tasks whose model has no known answer here; they are not in PicoUSD
}

// State is what the store says of a task.
type State struct {
	Status  string // completed, failed, cancelled, queued, running; empty: there is none
	Rearm   bool   // by the terms of the replay it would be re-armed
	Model   string
	Priced  int   // answers whose cost is known
	PicoUSD int64 // of these
}

// Tasks is the store of a replay.
type Tasks interface {
	// Look says what tasks are, in their order.
	Look(ctx context.Context, refs []Ref) ([]State, error)
	// Rearm re-arms tasks and moves the cursor in one transaction, and says how many it has re-armed. What it finds to be
	// otherwise than Look did, it leaves.
	Rearm(ctx context.Context, step Step) (rearmed int64, err error)
}

// Item is one record, or one task of a list: Partition is then -1.
type Item struct {
	Ref       Ref
	Readable  bool
	Partition int32
	Offset    int64
}

// Add counts what items point at into the plan: each task once, however many records point at it.
func (p *Plan) Add(ctx context.Context, store Tasks, items iter.Seq2[Item, error]) error {
	seen := make(map[Ref]struct{})
	records := make(map[int32]int64)
	prices := make(map[string]*price)
	var batch []Ref
	flush := func() error {
		states, err := store.Look(ctx, batch)
		if err != nil {
			return err
		}
		for _, s := range states {
			p.count(s, prices)
		}
		batch = batch[:0]
		return nil
	}
	for item, err := range items {
		if err != nil {
			return err
		}
		records[item.Partition]++
		if !item.Readable {
			p.Tasks.Unreadable++
			continue
		}
		if _, known := seen[item.Ref]; known {
			continue
		}
		seen[item.Ref] = struct{}{}
		if batch = append(batch, item.Ref); len(batch) == lookBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(batch) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	for i := range p.Partitions {
		p.Partitions[i].Records += records[p.Partitions[i].Partition]
	}
	for _, m := range prices {
		switch {
		case m.answers == 0:
			p.Estimate.Unknown += m.rearm
		default:
			each := new(big.Int).Div(m.sum, big.NewInt(m.answers))
			p.Estimate.PicoUSD = capped(each.Mul(each, big.NewInt(m.rearm)), p.Estimate.PicoUSD)
		}
	}
	return nil
}

// price is of a model.
type price struct {
	answers, rearm int64
	sum            *big.Int
}

func capped(a *big.Int, b int64) int64 {
	const most = 9_000_000_000_000_000_000
	if a.Add(a, big.NewInt(b)); !a.IsInt64() || a.Int64() > most {
		return most
	}
	return a.Int64()
}

func (p *Plan) count(s State, prices map[string]*price) {
	switch s.Status {
	case "completed":
		p.Tasks.Completed++
	case "failed":
		p.Tasks.Failed++
	case "cancelled":
		p.Tasks.Cancelled++
	case "":
		p.Tasks.Missing++
	default:
		p.Tasks.Unfinished++
	}
	m := prices[s.Model]
	if m == nil {
		m = &price{sum: new(big.Int)}
		prices[s.Model] = m
	}
	m.answers += int64(s.Priced)
	m.sum.Add(m.sum, big.NewInt(s.PicoUSD))
	if s.Rearm {
		p.Will.Rearm++
		m.rearm++
	} else {
		p.Will.Skip++
	}
}

// List yields the tasks of a list.
func List(refs []Ref) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, ref := range refs {
			if !yield(Item{Ref: ref, Readable: true, Partition: -1}, nil) {
				return
			}
		}
	}
}
