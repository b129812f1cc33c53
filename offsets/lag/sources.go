package lag

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
)

// ErrNoTopic: the brokers do not know the topic.
var ErrNoTopic = errors.New("there is no such topic")

// Stored is what a database has settled of one partition.
type Stored struct {
	Topic     string
	TopicID   [16]byte // a topic that was made again has another one
	Partition int32
	Settled   []offsets.Run // ascending and apart from each other
}

// Positions reads what is stored of a group with the replies. It is optional.
type Positions interface {
	Stored(ctx context.Context, group string) ([]Stored, error)
}

// TaskState is what a store says of a task that a head record points at.
type TaskState struct {
	Status  string
	Attempt int // how often a call was begun
}

// Tasks looks up tasks, all in one statement. Unknown ones are left out. It is optional.
type Tasks interface {
	TaskStates(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]TaskState, error)
}

// Config says what is read.
type Config struct {
	// Client asks the brokers. It needs no group and no topic, and stays its caller's.
	Client *kgo.Client
	Group  string
	Topic  string

	Positions Positions // nil: positions are looked for in the group's commits alone
	Tasks     Tasks     // nil: heads are named without the state of their tasks
	// StoreTimeout bounds each question to the two; what does not answer is told in Problems. 0: 2 s.
	StoreTimeout time.Duration

	// Exact counts the records of every lagging partition by reading them, up to the context's deadline.
	Exact bool
	// HeadTimeout bounds the reading of the records at the positions. 0: 3 s.
	HeadTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.StoreTimeout == 0 {
		c.StoreTimeout = 2 * time.Second
	}
	if c.HeadTimeout == 0 {
		c.HeadTimeout = 3 * time.Second
	}
	return c
}
