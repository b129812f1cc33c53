package tasks

import (
	"context"

	"github.com/google/uuid"
)

// Progress is what those who watch a task are told without its text.
type Progress struct {
	TaskID    uuid.UUID
	Workspace string
	Status    Status
	Version   int64 // assignment_version: a greater one is a new attempt
	Attempts  int
}

// Watched reads how far tasks are, for all who watch in one statement. Unknown ones are left out; the order is any.
type Watched interface {
	Progress(ctx context.Context, ids []uuid.UUID) ([]Progress, error)
}
