package dashboard

import (
	"context"
	"errors"
)

// ErrNoTask: there is no such task.
var ErrNoTask = errors.New("there is no such task")

// LagSource reads the lag. *ElsewhereError where another process does.
type LagSource interface {
	Lag(ctx context.Context) (Lag, error)
}

// WorkSource reads what becomes of tasks.
type WorkSource interface {
	Work(ctx context.Context) (Work, error)
}

// MoneySource reads what was spent.
type MoneySource interface {
	Money(ctx context.Context) (Money, error)
}

// OutboxSource reads what waits to become records.
type OutboxSource interface {
	Outbox(ctx context.Context) (Outbox, error)
}

// GateSource says whether calls are made. It must not block.
type GateSource interface {
	Gate() Gate
}

// TaskSource reads one task. ErrNoTask.
type TaskSource interface {
	Task(ctx context.Context, id string) (Task, error)
}

// Sources are where the page's numbers come from. A nil one is not in this process, and the page says so.
type Sources struct {
	Lag    LagSource
	Work   WorkSource
	Money  MoneySource
	Outbox OutboxSource
	Gate   GateSource
	Tasks  TaskSource
}
