package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencepost/fencepost/tasks"
)

// KeyStore finds API keys by the hash of their secret (tasks.HashKey). An unknown one is tasks.ErrNotFound; a revoked
// one is either that or a Key that is Revoked.
type KeyStore interface {
	KeyByHash(ctx context.Context, hash [32]byte) (tasks.Key, error)
}

// Config is what a Server is made of. Only Store and Keys have no default.
type Config struct {
	Store tasks.Store
	// Watched tells how far tasks are, to all who wait. When nil, Store must be one.
	Watched tasks.Watched
	// Live is where the texts of running attempts are read, for those who watch. Nil: nobody sees tokens.
	Live     tasks.LiveTexts
	Keys     KeyStore
	Defaults Defaults
	Limits   Limits

	// KeyOptional lets a chat completion come without an Idempotency-Key: one is made for it, and returned.
	KeyOptional bool

	// Templates are what prompt_template may name. When nil, any name is taken and is nothing but a word in the fingerprint.
	Templates *Templates
	// Bindings knows a repeat across a change of the templates; without it, such a repeat is answered as a new request.
	Bindings Bindings

	// Spending sums the ledger; Store does where it is nil, if it can. Without it there is no /v1/spend.
	Spending tasks.Spending

	// Backlog is counted so that no more than Limits.MaxUnfinished tasks wait. Nil: there is no bound.
	Backlog Backlog

	// Reserve is what a task may cost at most, in picodollars; nil, or a nil function: not known. Only workspaces with a
	// budget are held to it. It must not block.
	Reserve func(tasks.Request) *int64

	// GroupDelay is how long a batch waits for company while another is being committed; 1 ms when 0. A request that
	// finds nothing in flight waits for nothing.
	GroupDelay time.Duration
	// MaxBatch bounds the submissions of one transaction; 256 when 0.
	MaxBatch int
	// Committers is how many batches may be in flight at once; 2 when 0.
	Committers int

	Logger     *slog.Logger          // slog.Default() when nil
	Registerer prometheus.Registerer // no metrics when nil
	// Tracer has a span for each request that makes work, from which the task's own follow. Nil: the caller's traceparent
	// goes along as it came.
	Tracer tasks.Tracer
	// OnSubmitted is called after each batch that stored something, to wake the dispatcher. It must not block.
	OnSubmitted func()
}

// Defaults are what a submission gets that does not say.
type Defaults struct {
	Model            string        // when empty, every request must name its model
	MaxAttempts      int           // 5 when 0
	MaxInterruptions int           // 10 when 0
	Deadline         time.Duration // 1 h when 0
	Retention        time.Duration // of idempotency keys; 24 h when 0, and never less than the task's deadline
}

// Limits bound what one caller, and all callers together, can ask for. Sizes are in bytes.
type Limits struct {
	MaxContent  int           // 256 KiB when 0
	MaxAttempts int           // the most a request may ask for; 20 when 0
	MaxDeadline time.Duration // 24 h when 0
	MaxWait     time.Duration // a longer ?wait is cut to this; 60 s when 0
	MaxChatWait time.Duration // how long a chat completion waits for its task; 10 min when 0
	MaxPage     int           // a larger ?limit is cut to this; 200 when 0, at most 999

	MaxUnfinished int // tasks that are not finished, of all workspaces, beyond which new ones are refused; 1,000,000 when 0
	// WorkspaceMaxUnfinished is the same for each workspace, for which Backlog must be a WorkspaceBacklog; none when 0.
	WorkspaceMaxUnfinished int
	// WorkspaceSubmissionsPerMinute bounds what each workspace submits through this process; none when 0.
	WorkspaceSubmissionsPerMinute int

	MaxWaiters int // requests that wait, in ?wait and in streams, at once; 25,000 when 0
	// MaxWaitersPerWorkspace is the same for each workspace; 20,000 when 0.
	MaxWaitersPerWorkspace int
	MaxQueue               int   // submissions not yet in a transaction; 4,096 when 0
	MaxBytes               int64 // of all request bodies in hand; 256 MiB when 0
	MaxKeyLookups          int   // look-ups of API keys at once; 8 when 0

	SubmitTimeout time.Duration // until a submission's answer is "unknown"; 10 s when 0
	ReadTimeout   time.Duration // of every other call of the store; 10 s when 0
}

func (c Config) withDefaults() (Config, error) {
	if c.Store == nil || c.Keys == nil {
		return c, errors.New("httpapi: Store and Keys are required")
	}
	if c.Watched == nil {
		var ok bool
		if c.Watched, ok = c.Store.(tasks.Watched); !ok {
			return c, errors.New("httpapi: Watched is required, since Store is none")
		}
	}
	if c.Spending == nil {
		c.Spending, _ = c.Store.(tasks.Spending)
	}
	or(&c.GroupDelay, time.Millisecond)
	or(&c.MaxBatch, 256)
	or(&c.Committers, 2)
	or(&c.Defaults.MaxAttempts, 5)
	or(&c.Defaults.MaxInterruptions, 10)
	or(&c.Defaults.Deadline, time.Hour)
	or(&c.Defaults.Retention, 24*time.Hour)
	or(&c.Limits.MaxContent, 256<<10)
	or(&c.Limits.MaxAttempts, 20)
	or(&c.Limits.MaxDeadline, 24*time.Hour)
	or(&c.Limits.MaxWait, time.Minute)
	or(&c.Limits.MaxChatWait, 10*time.Minute)
	or(&c.Limits.MaxPage, 200)
	or(&c.Limits.MaxUnfinished, 1_000_000)
	or(&c.Limits.MaxWaiters, 25_000)
	or(&c.Limits.MaxWaitersPerWorkspace, 20_000)
	or(&c.Limits.MaxQueue, 4096)
	or(&c.Limits.MaxBytes, 256<<20)
	or(&c.Limits.MaxKeyLookups, 8)
	or(&c.Limits.SubmitTimeout, 10*time.Second)
	or(&c.Limits.ReadTimeout, 10*time.Second)
	// What the operator gives everyone cannot be too much to ask for.
	c.Limits.MaxAttempts = max(c.Limits.MaxAttempts, c.Defaults.MaxAttempts)
	c.Limits.MaxDeadline = max(c.Limits.MaxDeadline, c.Defaults.Deadline)
	if c.Limits.MaxContent > tasks.MaxInputText {
		return c, errors.New("httpapi: Limits.MaxContent is more than a task can carry")
	}
	// A page reads one more than it shows, and the store reads at most 1000.
	if c.Limits.MaxPage > 999 {
		return c, errors.New("httpapi: Limits.MaxPage is more than 999")
	}
	if _, ok := c.Backlog.(WorkspaceBacklog); c.Limits.WorkspaceMaxUnfinished > 0 && !ok {
		return c, errors.New("httpapi: Limits.WorkspaceMaxUnfinished needs a Backlog that counts by workspace")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.OnSubmitted == nil {
		c.OnSubmitted = func() {}
	}
	return c, nil
}

func or[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
