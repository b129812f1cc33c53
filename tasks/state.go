package tasks

// Status is where a task stands. See the drawing in the package comment.
type Status string

const (
	StatusQueued    Status = "queued"
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// Statuses lists every status, in the order of a task's life.
var Statuses = []Status{StatusQueued, StatusRunning, StatusCompleted, StatusFailed, StatusCancelled}

// Terminal reports whether nothing can change the task any more.
func (s Status) Terminal() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

// Valid reports whether s is one of Statuses.
func (s Status) Valid() bool {
	switch s {
	case StatusQueued, StatusRunning, StatusCompleted, StatusFailed, StatusCancelled:
		return true
	}
	return false
}
