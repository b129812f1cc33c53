package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Config has no field that must be set.
type Config struct {
	// Now is the database's clock; time.Now when nil. It is called with the store's lock held.
	Now func() time.Time
	// Fault, when set, is called around each call of tasks.Store with the method's name, before anything is done
	// (committed is false) and after the lock is free again (committed is true). Its error becomes the call's, as
	// ErrUnavailable: before, nothing has happened; after, everything has and the acknowledgement is lost.
	Fault func(method string, committed bool) error
}

// Store is safe for concurrent use.
type Store struct {
	now   func() time.Time
	fault func(method string, committed bool) error

	mu            sync.Mutex
	tasks         map[uuid.UUID]*row
	ids           []uuid.UUID // of tasks, ascending
	keys          map[key]*submission
	messages      map[uuid.UUID]*message
	conversations map[conversation][]*message // by seq
	seq           int64                       // last of messages
	outbox        [tasks.Shards][]handoff     // by id
	handoff       int64                       // last id in outbox
	delayed       map[uuid.UUID]time.Time     // when a handoff of the task is due
	dispatchers   map[string]time.Time        // until when each is taken to be alive
	shards        [tasks.Shards]shardLease    // who reads the outbox
	apiKeys       map[[32]byte]*tasks.Key     // by hash of the secret
	positions     map[partition]*position
	live          map[uuid.UUID]*live
	budgets       map[string]budget // by workspace
	accounts      map[day]*account
	spent         []spend // by replays, and by tasks that are swept
}

var _ tasks.Store = (*Store)(nil)

type row struct {
	tasks.Task // Reply, Failure and Cost are filled in by view
	request    tasks.Request
	trace      string
	failure    *tasks.Failure
	reply      *tasks.Reply
	ledger     []*attempt // by version
	recovered  time.Time  // when it was last handed off again
	reserve    *int64     // nil: it has no part in a budget
	keyExpires time.Time  // when the key that made it is forgotten
	day        day        // whose budget it was taken from
}

// attempt is a row of the ledger with what is not for readers.
type attempt struct {
	tasks.Attempt
	ref     string // as noted
	request []byte
	// presumed is what a budget was charged for it when its task went on without it.
	presumed int64
	settled  bool // by its own assignment, and not only ended by one that recovered its answer
}

type key struct{ workspace, operation, key string }

type submission struct {
	fingerprint [32]byte
	task        uuid.UUID
	expires     time.Time
	replays     int64
}

type conversation struct{ workspace, name string }

type message struct {
	tasks.Message
	in conversation
}

// New returns an empty store.
func New(c Config) *Store {
	s := &Store{
		now: c.Now, fault: c.Fault,
		tasks:         make(map[uuid.UUID]*row),
		keys:          make(map[key]*submission),
		messages:      make(map[uuid.UUID]*message),
		conversations: make(map[conversation][]*message),
		delayed:       make(map[uuid.UUID]time.Time),
		dispatchers:   make(map[string]time.Time),
		apiKeys:       make(map[[32]byte]*tasks.Key),
		positions:     make(map[partition]*position),
		live:          make(map[uuid.UUID]*live),
		budgets:       make(map[string]budget),
		accounts:      make(map[day]*account),
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// transact runs do as the one transaction of a call, with the lock held and the time at which it was got.
func (s *Store) transact(ctx context.Context, method string, do func(now time.Time)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.fault != nil {
		if err := s.fault(method, false); err != nil {
			return fmt.Errorf("%w: %w", tasks.ErrUnavailable, err)
		}
	}
	s.locked(do)
	if s.fault != nil {
		if err := s.fault(method, true); err != nil {
			return fmt.Errorf("%w: %w", tasks.ErrUnavailable, err)
		}
	}
	return nil
}

func (s *Store) locked(do func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.now().UTC())
}

// find returns the task, or nil when this workspace has no such task (I8).
func (s *Store) find(workspace string, id uuid.UUID) *row {
	if r := s.tasks[id]; r != nil && r.Workspace == workspace {
		return r
	}
	return nil
}

// insert adds a task, keeping ids in order. UUIDv7 come nearly in order, so that the search is short.
func (s *Store) insert(r *row) {
	s.tasks[r.ID] = r
	at := len(s.ids)
	for at > 0 && compare(s.ids[at-1], r.ID) > 0 {
		at--
	}
	s.ids = slices.Insert(s.ids, at, r.ID)
}

// end makes the task terminal.
func (r *row) end(status tasks.Status, now time.Time) {
	r.Status, r.FinishedAt, r.LeaseUntil = status, now, time.Time{}
}

// fail ends the task with a failure of its latest attempt.
func (r *row) fail(class, message string, now time.Time) {
	r.failed(class, message)
	r.end(tasks.StatusFailed, now)
}

// failed records a failure of the latest attempt.
func (r *row) failed(class, message string) {
	r.failure = &tasks.Failure{
		Class: tasks.Clean(class), Message: tasks.Cut(message, tasks.MaxFailureText), Attempt: r.Attempts,
	}
}

// attempt returns the ledger's row of a version, or nil.
func (r *row) attempt(version int64) *attempt {
	for _, a := range slices.Backward(r.ledger) {
		if a.Version == version {
			return a
		}
	}
	return nil
}
