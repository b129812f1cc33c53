package tasks

import "errors"

// A sentinel for each decision that a caller takes.
var (
	// ErrNotFound: there is no such task in this workspace. Also the answer for another workspace's task (I8).
	ErrNotFound = errors.New("no such task")
	// ErrKeyReused: the idempotency key is bound to other inputs (I6).
	ErrKeyReused = errors.New("idempotency key was used with other inputs")
	// ErrInProgress: the first submission under this key has not committed yet. Try again shortly.
	ErrInProgress = errors.New("a submission with this idempotency key is still in progress")
	// ErrBudget: what the workspace has spent and reserved today leaves too little for this task.
	ErrBudget = errors.New("the workspace's budget for today is exhausted")
	// ErrUnpriced: the workspace has a budget, and what the task may cost is not known.
	ErrUnpriced = errors.New("the workspace has a budget and the model has no price")
	// ErrInvalid: the item itself cannot be stored, whatever is tried. Other items of its batch are not affected.
	ErrInvalid = errors.New("cannot be stored")
	// ErrUnavailable: the store cannot be reached or does not answer. Nothing is known to have changed; after a lost
	// acknowledgement it may have. Every operation of Store may be repeated with the same arguments.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrSchema: the database's schema is not the one this program was built for.
	ErrSchema = errors.New("database schema does not fit")
)
