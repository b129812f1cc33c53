package httpapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/tasks"
)

// cursor is how far the reader of a task's events has come. It is all that is needed to go on, on any process: the events
// after it follow from the task as it stands.
type cursor struct {
	status  tasks.Status // the last that was told; empty: none, or none since the attempt changed
	version int64        // of the assignment whose tokens the reader has, or would have
	index   int          // of the next token of that version; more than 0: there is something to drop when it changes
}

// noStatus stands for the empty status in an id.
const noStatus = "none"

// String is the id of an event.
func (c cursor) String() string {
	status := string(c.status)
	if status == "" {
		status = noStatus
	}
	return fmt.Sprintf("%s.%d.%d", status, c.version, c.index)
}

// parseCursor reads what String wrote. field is blamed for what it did not write.
func parseCursor(field, text string) (cursor, *problem) {
	word, numbers, _ := strings.Cut(text, ".")
	version, index, _ := strings.Cut(numbers, ".")
	c := cursor{status: tasks.Status(word)}
	if word == noStatus {
		c.status = ""
	}
	var errVersion, errIndex error
	c.version, errVersion = strconv.ParseInt(version, 10, 64)
	c.index, errIndex = strconv.Atoi(index)
	if word != noStatus && !c.status.Valid() || errVersion != nil || errIndex != nil || c.version < 0 || c.index < 0 || c.index > math.MaxInt32 ||
		c.String() != text {
		return cursor{}, invalidField(field, "is not the id of an event of this route")
	}
	return c, nil
}
