package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/fencepost/fencepost/offsets"
)

// Positions is where positions are kept with the replies.
type Positions interface {
	// Settled returns what is stored of the group's partitions of a topic; partitions of which nothing is are left out.
	Settled(ctx context.Context, group string, topicID [16]byte) (map[int32][]offsets.Run, error)
	// Move sets what is stored, of all or of none, and raises the owners' epochs.
	Move(ctx context.Context, moves []offsets.Move) error
}

// Rewind moves a group. Prepare it, look at its plan, and execute it.
type Rewind struct {
	log       *Log
	positions Positions
	group     group
	topicID   [16]byte
	bounds    map[int32]Bounds
	moves     map[int32]move
}

type move struct{ before, after Kept }

// NewRewind reads what there is of partitions, or of all where none are named. ErrTopic, ErrPartition; *ActiveError when the group has
// members.
func NewRewind(ctx context.Context, log *Log, positions Positions, name string, partitions []int32) (*Rewind, error) {
	r := &Rewind{log: log, positions: positions, group: group{name: name, topic: log.Topic, admin: log.admin}, moves: map[int32]move{}}
	if err := r.group.inactive(ctx); err != nil {
		return nil, err
	}
	var err error
	if r.topicID, r.bounds, err = log.Describe(ctx); err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		partitions = slices.Collect(maps.Keys(r.bounds))
	}
	committed, err := r.group.committed(ctx, partitions)
	if err != nil {
		return nil, err
	}
	settled, err := positions.Settled(ctx, name, r.topicID)
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		if _, ok := r.bounds[p]; !ok {
			return nil, fmt.Errorf("partition %d of topic %s: %w, it has %d", p, log.Topic, ErrPartition, len(r.bounds))
		}
		runs, stored := settled[p]
		before := Kept{
			Committed: committed[p].At, LeaderEpoch: committed[p].LeaderEpoch, Metadata: committed[p].Metadata, Stored: stored, Settled: runs,
		}
		r.moves[p] = move{before, before}
	}
	return r, nil
}

// partitions are those of the rewind, in order.
func (r *Rewind) partitions() []int32 { return slices.Sorted(maps.Keys(r.moves)) }

// To aims all partitions at a target. ErrRange, ErrNoPosition.
func (r *Rewind) To(ctx context.Context, t Target, clamp bool) error {
	position := map[int32]int64{}
	for p, m := range r.moves {
		position[p] = m.before.Position()
	}
	targets, err := r.log.Resolve(ctx, t, r.partitions(), r.bounds, position, clamp)
	if err != nil {
		return err
	}
	for p, m := range r.moves {
		if m.after = m.before.at(targets[p], metadataLimit); targets[p] == position[p] {
			m.after = m.before // there is nothing to do, and what is settled ahead stays
		}
		r.moves[p] = m
	}
	return nil
}

// Undo reads what a rewind has left, so that NewRewind can be made with its partitions and aimed by Restore.
func Undo(path string) (name, topic string, partitions []int32, err error) {
	u, err := readUndo(path)
	for _, p := range u.Partitions {
		partitions = append(partitions, p.Partition)
	}
	return u.Group, u.Topic, partitions, err
}

// Restore aims the partitions at exactly what an undo file says. ErrUndo.
func (r *Rewind) Restore(path string) error {
	u, err := readUndo(path)
	switch {
	case err != nil:
		return err
	case u.Group != r.group.name || u.Topic != r.group.topic:
		return fmt.Errorf("%w: %s is of group %s and topic %s", ErrUndo, path, u.Group, u.Topic)
	case u.TopicID != uuid.UUID(r.topicID):
		return fmt.Errorf("%w: topic %s has been made again since %s was written, and its offsets mean other records", ErrUndo, u.Topic, path)
	}
	for _, p := range u.Partitions {
		m, ok := r.moves[p.Partition]
		if !ok {
			continue // the caller wants fewer
		}
		m.after = p.kept()
		switch {
		case m.after.Stored && !m.before.Stored:
			return fmt.Errorf("%w: what was stored of partition %d with the replies is gone", ErrUndo, p.Partition)
		case !m.after.Stored && m.before.Stored:
			// A worker has begun to keep positions with the replies since. It took the commit over as it was then.
			committed := m.after
			m.after.Stored = true
			if committed.Committed > 0 {
				m.after.Settled = []offsets.Run{{From: 0, To: committed.Committed}}
			}
			ahead, _ := offsets.DecodeRuns(committed.Committed, committed.Metadata)
			m.after.Settled = append(m.after.Settled, ahead...)
		}
		r.moves[p.Partition] = m
	}
	return nil
}

// Plan says what will move, and what stands in the records between: those that are read again, or passed over.
func (r *Rewind) Plan(ctx context.Context, store Tasks) (Plan, error) {
	plan := Plan{Kind: "rewind", Group: r.group.name, Topic: r.group.topic, Partitions: []Span{}}
	var between []Span
	for _, p := range r.partitions() {
		from, to := r.moves[p].before.Position(), r.moves[p].after.Position()
		plan.Partitions = append(plan.Partitions, Span{Partition: p, From: Offset(from), To: Offset(to)})
		b := r.bounds[p]
		first, beyond := max(b.Start, min(from, to)), min(b.End, max(from, to, b.Start))
		if first < beyond {
			between = append(between, Span{Partition: p, From: Offset(first), To: Offset(beyond)})
		}
	}
	return plan, plan.Add(ctx, store, r.log.Read(ctx, between, Cursor{}))
}

// Moves reports whether anything will move.
func (r *Rewind) Moves() bool { return len(r.moving()) > 0 }

// moving are the partitions that do not stay as they are.
func (r *Rewind) moving() []int32 {
	return slices.DeleteFunc(r.partitions(), func(p int32) bool { return r.moves[p].before.equal(r.moves[p].after) })
}

// Execute writes the undo file, which must not be there yet, and moves the group. *ActiveError and errors of the file, and of
// the positions with the replies, leave everything as it was; *PartlyError says what stands. It may be repeated where
// the target is no Shift.
func (r *Rewind) Execute(ctx context.Context, path string) error {
	moving := r.moving()
	u := undo{Version: 1, Group: r.group.name, Topic: r.group.topic, TopicID: r.topicID, WrittenAt: time.Now().UTC()}
	var stored []offsets.Move
	var commits []kadm.Offset
	partly := &PartlyError{Failed: map[int32]error{}, To: map[int32]int64{}}
	for _, p := range moving {
		m := r.moves[p]
		u.Partitions = append(u.Partitions, m.before.undo(p))
		partly.To[p] = m.after.Committed
		if m.before.Stored {
			stored = append(stored, offsets.Move{Group: r.group.name, TopicID: r.topicID, Partition: p, Was: m.before.Settled, To: m.after.Settled})
			partly.Stored = append(partly.Stored, p)
		}
		commits = append(commits, kadm.Offset{
			Topic: r.group.topic, Partition: p, At: m.after.Committed, LeaderEpoch: m.after.LeaderEpoch, Metadata: m.after.Metadata,
		})
	}
	if err := u.write(path); err != nil {
		return err
	}
	if err := r.group.inactive(ctx); err != nil {
		return err
	}
	if len(stored) > 0 {
		if err := r.positions.Move(ctx, stored); err != nil {
			return err
		}
	}
	partly.Failed = r.group.commit(ctx, commits)
	r.verify(ctx, commits, partly.Failed)
	var active *ActiveError
	for _, p := range moving {
		if err := partly.Failed[p]; err == nil {
			partly.Moved = append(partly.Moved, p)
		} else if active == nil {
			errors.As(err, &active)
		}
	}
	switch {
	case len(partly.Failed) == 0:
		return nil
	case active != nil && len(partly.Moved) == 0 && len(partly.Stored) == 0:
		return active
	}
	return partly
}

// verify reads back what was committed.
func (r *Rewind) verify(ctx context.Context, commits []kadm.Offset, failed map[int32]error) {
	partitions := make([]int32, len(commits))
	for i, c := range commits {
		partitions[i] = c.Partition
	}
	now, err := r.group.committed(ctx, partitions)
	for _, c := range commits {
		switch have := now[c.Partition]; {
		case failed[c.Partition] != nil:
		case err != nil:
			failed[c.Partition] = fmt.Errorf("it cannot be read back: %w", err)
		case have.At != c.At || have.Metadata != c.Metadata:
			failed[c.Partition] = fmt.Errorf("the broker has %d after it has taken %d", have.At, c.At)
		}
	}
}
