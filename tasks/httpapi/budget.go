package httpapi

import (
	"net/http"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// reserved fills in what a task may cost at most, which a workspace with a budget is asked for.
func (s *Server) reserved(submission *tasks.Submission) {
	if s.reserve != nil {
		submission.Reserve = s.reserve(submission.Request)
	}
}

// budgetExhausted asks to come back when the next day's budget begins: what is reserved today may come free before, but
// nobody knows when.
func budgetExhausted(now time.Time) *problem {
	p := newProblem(http.StatusTooManyRequests, "budget_exhausted", "The budget for today is exhausted",
		"what this workspace has spent and reserved today (UTC) leaves too little for this message; nothing was stored, "+
			"repeat it with the same key once the next day has begun or the budget was raised")
	p.retryAfter = int(untilMidnight(now)/time.Second) + 1
	return p
}

func untilMidnight(now time.Time) time.Duration {
	return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
}

func unpriced() *problem {
	p := newProblem(http.StatusUnprocessableEntity, "invalid_request", "The request is not valid",
		"model has no price on this server, and this workspace has a budget; send a model that has one, or ask the operator "+
			"for a price (--prices-file)")
	p.Field = "model"
	return p
}
