package replay

import (
	"encoding/json"

	"github.com/google/uuid"
)

// Ref names a task in its workspace.
type Ref struct {
	Task      uuid.UUID
	Workspace string
}

// maxValue bounds what is read of a record, as the consumer does.
const maxValue = 4 << 10

// decode reads the pointer that a record carries. What it takes for unreadable the consumer has put with the dead letters.
func decode(value []byte) (Ref, bool) {
	var v struct {
		V         int       `json:"v"`
		Task      uuid.UUID `json:"task"`
		Workspace string    `json:"workspace"`
	}
	if len(value) > maxValue || json.Unmarshal(value, &v) != nil || v.V != 1 || v.Task == uuid.Nil || v.Workspace == "" {
		return Ref{}, false
	}
	return Ref{Task: v.Task, Workspace: v.Workspace}, true
}
