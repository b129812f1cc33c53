package replay

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrRange: a target lies outside the log, and clamping was not asked for.
	ErrRange = errors.New("out of range")
	// ErrNoPosition: a target is relative to the group's position, and the group has none.
	ErrNoPosition = errors.New("the group has no position")
)

// Target is a place in the log of any partition. The zero value is the log's start.
type Target struct {
	kind   targetKind
	offset int64
	at     time.Time
}

type targetKind uint8

const (
	toStart targetKind = iota
	toEnd
	toOffset
	toTime
	toShift
)

// Start is the oldest record that the log still has.
func Start() Target { return Target{} }

// End is behind the newest record.
func End() Target { return Target{kind: toEnd} }

// At is an offset.
func At(offset int64) Target { return Target{kind: toOffset, offset: offset} }

// Since is the first record that is as new as t, by the record's timestamp.
func Since(t time.Time) Target { return Target{kind: toTime, at: t} }

// Shift is so many records from the group's position, by offsets; below 0 is back.
func Shift(by int64) Target { return Target{kind: toShift, offset: by} }

// Bounds are of one partition: offsets in [Start, End) are in the log.
type Bounds struct{ Start, End int64 }

// resolve finds the offset. since is that of the first record as new as the target's time; position is the group's, -1 when
// it has none.
func (t Target) resolve(partition int32, b Bounds, since, position int64, clamp bool) (int64, error) {
	at := t.offset
	switch t.kind {
	case toStart:
		return b.Start, nil
	case toEnd:
		return b.End, nil
	case toTime:
		at = since
	case toShift:
		if position < 0 {
			return 0, fmt.Errorf("partition %d: %w", partition, ErrNoPosition)
		}
		at = position + t.offset
	}
	if at >= b.Start && at <= b.End {
		return at, nil
	}
	if !clamp {
		return 0, fmt.Errorf("partition %d: %w: offset %d is not within %d and %d, which is what the log has", partition, ErrRange, at, b.Start, b.End)
	}
	return min(max(at, b.Start), b.End), nil
}
