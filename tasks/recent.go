package tasks

import (
	"time"

	"github.com/google/uuid"
)

// Recent is what became of the latest tasks and the latest attempts of all workspaces: what an operator looks at first.
// It looks at a bounded number of them, so that it costs the same however much there has been.
type Recent struct {
	Tasks     int // how many were looked at
	ByStatus  map[Status]int
	Attempts  int // how many were looked at
	ByOutcome map[string]int
	Failures  []RecentFailure // of those tasks, the latest first
}

// RecentRunning is the outcome of an attempt that is under way, or was never heard of again.
const RecentRunning = "running"

// RecentFailure is a task that failed for good.
type RecentFailure struct {
	TaskID    uuid.UUID
	Workspace string
	Failure
	Age time.Duration // since it failed, by the database's clock
}

// SpentToday is what one day, in UTC, has come to so far in all workspaces.
type SpentToday struct {
	Day         time.Time // midnight UTC at its beginning, by the database's clock
	Complete    bool      // false: much has not been added up yet (FoldSpend), and it is at least this
	Total       Spend
	ByWorkspace map[string]Spend
	ByModel     map[string]Spend
}
