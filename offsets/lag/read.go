package lag

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/fencepost/fencepost/offsets"
)

// Read asks the brokers, and the stores where there are any, once. It fails when there is nothing to report: no broker
// answers, there is no such topic (ErrNoTopic), or the group may not be looked at. Whatever else cannot be read is
// UNKNOWN in the report.
//
// The order is that of the design: commits first and the logs' ends after them, so that the lag may be overstated by
// what happens in between and never understated.
func Read(ctx context.Context, c Config) (Report, error) {
	c = c.withDefaults()
	admin := kadm.NewClient(c.Client)
	r := Report{Group: c.Group, Topic: c.Topic, Offsets: "kafka"}

	topics, err := admin.ListTopics(ctx, c.Topic)
	if err != nil {
		return r, fmt.Errorf("topic %s: %w", c.Topic, err)
	}
	topic := topics[c.Topic]
	if errors.Is(topic.Err, kerr.UnknownTopicOrPartition) || topic.Err == nil && len(topic.Partitions) == 0 {
		return r, fmt.Errorf("topic %s: %w", c.Topic, ErrNoTopic)
	}
	if topic.Err != nil {
		return r, fmt.Errorf("topic %s: %w", c.Topic, topic.Err)
	}
	r.TopicID = topic.ID

	who, err := describe(ctx, c.Client, topic, c.Group)
	if err != nil {
		r.problem("group %s: %v", c.Group, err)
		who.state = string(Unknown)
	}
	r.State, r.Members, r.MemberList = who.state, len(who.members), who.members

	commits, err := admin.FetchOffsets(ctx, c.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nobody has committed yet
		return r, fmt.Errorf("positions of group %s: %w", c.Group, err)
	}
	stored := r.stored(ctx, c)
	starts, err := listed(admin.ListStartOffsets(ctx, c.Topic))
	if err != nil {
		return r, fmt.Errorf("starts of %s: %w", c.Topic, err)
	}
	ends, err := listed(admin.ListEndOffsets(ctx, c.Topic))
	if err != nil {
		return r, fmt.Errorf("ends of %s: %w", c.Topic, err)
	}
	r.At = time.Now()

	var scans []*scan
	for _, n := range topic.Partitions.Numbers() {
		p, s := place(topic.Partitions[n], commits, stored[n], starts, ends)
		if m, has := who.owner(n); has {
			p.Member, p.ClientID, p.Host = m.ID, m.ClientID, m.Host
		}
		r.Partitions = append(r.Partitions, p)
		if s != nil {
			s.count = c.Exact
			scans = append(scans, s)
		}
	}
	r.heads(ctx, c, scans)
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if p.Status == "" {
			judge(p, []Sample{sampleOf(&r, p)}, Rules{}.withDefaults())
		}
	}
	r.summarize()
	return r, nil
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// listed keeps what the brokers that answered have said.
func listed(l kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && !shards.AllFailed {
		return l, nil
	}
	return l, err
}

// stored reads the positions in the database by partition. No row of this topic: they are kept in Kafka.
func (r *Report) stored(ctx context.Context, c Config) map[int32][]offsets.Run {
	if c.Positions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.StoreTimeout)
	defer cancel()
	rows, err := c.Positions.Stored(ctx, c.Group)
	if err != nil {
		r.problem("positions in the database: %v", err)
		return nil
	}
	out := make(map[int32][]offsets.Run)
	for _, row := range rows {
		if row.TopicID == r.TopicID {
			out[row.Partition] = row.Settled
			if row.Settled == nil {
				out[row.Partition] = []offsets.Run{}
			}
			r.Offsets = "postgres"
		}
	}
	return out
}

// place is one partition without its head, and the scan that looks for that, nil where there is nothing to look for.
func place(d kadm.PartitionDetail, commits kadm.OffsetResponses, stored []offsets.Run, starts, ends kadm.ListedOffsets) (Partition, *scan) {
	p := unread(d.Partition)
	unknown := func(format string, args ...any) (Partition, *scan) {
		p.Status, p.Why = Unknown, fmt.Sprintf(format, args...)
		return p, nil
	}
	if stored != nil {
		p.Stored = prefix(stored)
	}
	commit, committed := commits.Lookup(d.Topic, d.Partition)
	if committed && commit.Err != nil {
		return unknown("its commit cannot be read: %v", commit.Err)
	}
	var ahead []offsets.Run
	if committed && commit.At >= 0 {
		p.Committed, p.LeaderEpoch = Offset(commit.At), Offset(commit.LeaderEpoch)
		// What cannot be read says nothing, as to a worker.
		ahead, _ = offsets.DecodeRuns(commit.At, commit.Metadata)
	}
	start, there := starts.Lookup(d.Topic, d.Partition)
	if !there || start.Err != nil {
		return unknown("the start of its log cannot be read: %s", reason(start.Err))
	}
	end, there := ends.Lookup(d.Topic, d.Partition)
	if !there || end.Err != nil {
		return unknown("the end of its log cannot be read: %s", reason(end.Err))
	}
	p.Start, p.End = Offset(start.Offset), Offset(end.Offset)
	from := int64(p.Committed)
	if p.Committed > p.End {
		// Committed for a log that is gone. A worker throws it away and begins at the start.
		from, ahead = -1, nil
	}
	from = max(from, start.Offset)
	p.Lag = Offset(max(0, end.Offset-from))
	settled := settledRuns(from, ahead, stored, start.Offset, end.Offset)
	position, beyond := split(settled, start.Offset)
	p.Position, p.SettledAhead = Offset(position), Offset(size(beyond))
	if position >= end.Offset {
		p.LagSeconds = 0
	}
	if p.Lag == 0 || d.Leader < 0 {
		return p, nil
	}
	return p, &scan{
		partition: d.Partition, leader: d.Leader, at: position, from: from, end: end.Offset, settled: beyond,
	}
}

func reason(err error) string {
	if err == nil {
		return "no answer"
	}
	return err.Error()
}

// heads reads the records at the positions, and with Exact all behind them.
func (r *Report) heads(ctx context.Context, c Config, scans []*scan) {
	for _, s := range scans {
		if s.count {
			s.at = s.from // settled records count as lag until they are committed
			s.settled = append([]offsets.Run{{From: s.from, To: int64(r.at(s.partition).Position)}}, s.settled...)
		}
	}
	scans = slices.DeleteFunc(scans, func(s *scan) bool { return s.at >= s.end })
	reading := ctx
	if !c.Exact {
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeout(ctx, c.HeadTimeout)
		defer cancel()
	}
	f := fetcher{client: c.Client, topic: c.Topic, id: r.TopicID}
	f.run(reading, scans)

	var ids []uuid.UUID
	for _, s := range scans {
		p := r.at(s.partition)
		if s.done && s.count {
			p.Lag, p.Exact = Offset(s.found), true
		}
		switch {
		case s.head != nil:
			p.Head = &Head{Offset: Offset(s.head.Offset), AgeSeconds: age(s.head, r.At)}
			p.LagSeconds = p.Head.AgeSeconds
			if id, workspace, ok := pointer(s.head.Value); ok {
				p.Head.Task, p.Head.Workspace = id.String(), workspace
				ids = append(ids, id)
			}
		case s.done && !s.count && s.from >= int64(p.Position):
			// Nothing is there but markers and holes.
			p.Lag, p.Exact, p.LagSeconds = 0, true, 0
		case s.done:
			p.LagSeconds = 0
		}
		if s.err != nil {
			r.problem("partition %d: the record at %d: %v", s.partition, p.Position, s.err)
		}
	}
	r.tasks(ctx, c, ids)
}

func (r *Report) at(n int32) *Partition {
	i, _ := slices.BinarySearchFunc(r.Partitions, n, func(p Partition, n int32) int { return int(p.Partition) - int(n) })
	return &r.Partitions[i]
}

func (r *Report) tasks(ctx context.Context, c Config, ids []uuid.UUID) {
	if c.Tasks == nil || len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.StoreTimeout)
	defer cancel()
	states, err := c.Tasks.TaskStates(ctx, ids)
	if err != nil {
		r.problem("tasks of the head records: %v", err)
		return
	}
	for i := range r.Partitions {
		h := r.Partitions[i].Head
		if h == nil || h.Task == "" {
			continue
		}
		if s, ok := states[uuid.MustParse(h.Task)]; ok {
			h.TaskStatus, h.Attempt = s.Status, &s.Attempt
		} else {
			h.TaskStatus = "missing"
		}
	}
}

// maxPointer bounds what is read of a record's value.
const maxPointer = 4 << 10

// pointer reads the task that a record of ours points at.
func pointer(value []byte) (id uuid.UUID, workspace string, ok bool) {
	var v struct {
		V         int       `json:"v"`
		Task      uuid.UUID `json:"task"`
		Workspace string    `json:"workspace"`
	}
	if len(value) > maxPointer || json.Unmarshal(value, &v) != nil || v.V != 1 || v.Task == uuid.Nil {
		return uuid.Nil, "", false
	}
	return v.Task, v.Workspace, true
}
