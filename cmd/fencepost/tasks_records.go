package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/replay"
	"github.com/fencepost/fencepost/tasks"
)

// clockReach is how far the clocks of a broker and of the database may be apart for a record to be found by its time.
const clockReach = time.Minute

// recordPlace is where a record that points at a task is in the topic.
type recordPlace struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// recordsOf finds the records that point at the task, in every partition, since another producer may have chosen any. It
// reads what was written since the task was accepted, without a group.
func recordsOf(ctx context.Context, log *replay.Log, task tasks.Task) ([]recordPlace, error) {
	_, bounds, err := log.Describe(ctx)
	if err != nil {
		return nil, err
	}
	var partitions []int32
	for p := range bounds {
		partitions = append(partitions, p)
	}
	spans, err := log.Spans(ctx, replay.Since(task.AcceptedAt.Add(-clockReach)), replay.End(), partitions, bounds, true)
	if err != nil {
		return nil, err
	}
	found := []recordPlace{}
	for item, err := range log.Read(ctx, spans, replay.Cursor{}) {
		if err != nil {
			return nil, err
		}
		if item.Readable && item.Ref.Task == task.ID && item.Ref.Workspace == task.Workspace {
			found = append(found, recordPlace{Partition: item.Partition, Offset: item.Offset})
		}
	}
	return found, nil
}

// placesText is the records on one line.
func placesText(places []recordPlace) string {
	parts := make([]string, len(places))
	for i, p := range places {
		parts[i] = fmt.Sprintf("%d:%d", p.Partition, p.Offset)
	}
	return strings.Join(parts, ", ")
}

// recordsError explains why a task's records could not be looked for.
func recordsError(id uuid.UUID, err error) error {
	return cli.Fail("fencepost doctor --roles worker, or leave out --records", "look for the records of task %s: %w", id, err)
}

// withRecords completes the JSON of a task.
func withRecords(task []byte, places []recordPlace) ([]byte, error) {
	if places == nil {
		return task, nil
	}
	list := make([]string, len(places))
	for i, p := range places {
		list[i] = fmt.Sprintf(`{"partition":%d,"offset":%d}`, p.Partition, p.Offset)
	}
	return slices.Concat(task[:len(task)-1], []byte(`,"records":[`+strings.Join(list, ",")+`]}`)), nil
}
