package node

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/httpapi"
)

// Role is a part of the product.
type Role string

const (
	API        Role = "api"
	Dispatcher Role = "dispatcher"
	Worker     Role = "worker"
)

// AllRoles is what runs when nothing else is said.
var AllRoles = []Role{API, Dispatcher, Worker}

// ParseRoles reads role names; each may be given once.
func ParseRoles(words []string) ([]Role, error) {
	var roles []Role
	for _, w := range words {
		r := Role(strings.TrimSpace(w))
		if !slices.Contains(AllRoles, r) {
			return nil, fmt.Errorf("unknown role %q; roles are api, dispatcher and worker", w)
		}
		if !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	if len(roles) == 0 {
		return nil, fmt.Errorf("no role given; roles are api, dispatcher and worker")
	}
	return roles, nil
}

// Config is everything a node needs.
type Config struct {
	Roles       []Role
	Kafka       Kafka
	PostgresURL string
	Provider    llm.Provider // only for the worker
	Gate        *llm.Gate    // only for the worker; nil: calls begin whenever there is work
	Prices      *llm.Prices  // only for the worker; nil: what calls cost is unknown

	Listen      string // of the API
	AdminListen string
	// NextPort takes the next free port where a listen address is taken.
	NextPort bool

	// Consumer is the worker's part; node fills in what it knows itself.
	Consumer consumer.Config
	// OffsetsInPostgres keeps the worker's positions with the replies; the group's commits follow.
	OffsetsInPostgres bool
	// LiveTokens has the worker keep the text of running calls in the database.
	LiveTokens bool
	// Defaults are the API's for submissions.
	Defaults httpapi.Defaults
	// KeyOptional lets chat completions come without an Idempotency-Key.
	KeyOptional bool
	// Templates are what messages may name; nil: any name, which then is nothing but a word.
	Templates *httpapi.Templates

	// Reserve is what a message can cost at most, in picodollars, for the budgets of workspaces; nil: not known.
	Reserve func(tasks.Request) *int64
	// TaskRetention is for how long the dispatcher's sweep keeps finished tasks; 0: for ever.
	TaskRetention time.Duration

	// Limits are the API's.
	Limits httpapi.Limits

	// Traces has spans sent to a collector, at TracesEndpoint or where the standard OTEL_… variables say.
	Traces         bool
	TracesEndpoint string

	// StartTimeout bounds the wait for Postgres and Kafka, each.
	StartTimeout time.Duration
	// DrainTimeout bounds the end of open HTTP requests.
	DrainTimeout time.Duration

	Version string
	Logger  *slog.Logger
	// Progress gets a line for a person when something is waited for.
	Progress func(format string, args ...any)
}

func (c Config) has(r Role) bool { return slices.Contains(c.Roles, r) }

// usesKafka: the API alone needs only Postgres.
func (c Config) usesKafka() bool { return c.has(Dispatcher) || c.has(Worker) }
