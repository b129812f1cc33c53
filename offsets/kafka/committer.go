package kafka

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
)

// Config is what a Committer needs to know. The zero value of a field but Group takes the default.
type Config struct {
	Group string
	// MetadataLimit is the brokers' offset.metadata.max.bytes; 4096 by default. 1 keeps settled-ahead runs out of commits.
	MetadataLimit int
	Timeout       time.Duration // of one Commit, its wait for its turn included; 10 s by default
	Logger        *slog.Logger  // discards by default
}

// Committer keeps the positions of one client's partitions. It is safe for concurrent use.
type Committer struct {
	group   string
	timeout time.Duration
	log     *slog.Logger
	client  atomic.Pointer[kgo.Client]

	turn chan struct{} // holds a token while a commit is under way

	mu      sync.Mutex
	limit   int                       // of metadata, in bytes; lowered when a broker turns out to allow less
	fetched map[partition]fetched     // what Resume has not yet been asked for
	floor   map[partition]committedAt // the last commit acknowledged
	warned  map[partition]bool        // corrupt metadata was logged
}

type partition struct {
	topic string
	id    int32
}

type fetched struct {
	committed int64
	ahead     []offsets.Run
}

type committedAt struct {
	memberID string
	offset   int64
}

// New returns a Committer that has to be bound to its client before the first Commit.
func New(cfg Config) *Committer {
	if cfg.MetadataLimit <= 0 {
		cfg.MetadataLimit = 4096
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Committer{
		group:   cfg.Group,
		timeout: cfg.Timeout,
		log:     cfg.Logger,
		turn:    make(chan struct{}, 1),
		limit:   cfg.MetadataLimit,
		fetched: make(map[partition]fetched),
		floor:   make(map[partition]committedAt),
		warned:  make(map[partition]bool),
	}
}

// Opts are the options that the client of this Committer is built with. They take kgo.OnOffsetsFetched.
func (c *Committer) Opts() []kgo.Opt {
	return []kgo.Opt{kgo.OnOffsetsFetched(c.onFetched)}
}

// Bind sets the client that commits. It has to be a member of Config.Group and built with Opts.
func (c *Committer) Bind(cl *kgo.Client) { c.client.Store(cl) }
