package deadletter

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Reasons are the words of the header fencepost-dlq-reason.
var Reasons = []string{"unreadable", "unknown_task"}

// ErrID: the word does not name a letter.
var ErrID = errors.New("want PARTITION:OFFSET of the dead-letter topic, like 0:17")

// ID is where a letter is in the dead-letter topic.
type ID struct {
	Partition int32
	Offset    int64
}

// String is PARTITION:OFFSET.
func (id ID) String() string { return fmt.Sprintf("%d:%d", id.Partition, id.Offset) }

// MarshalText makes it a JSON string.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseID reads PARTITION:OFFSET. ErrID.
func ParseID(s string) (ID, error) {
	partition, offset, _ := strings.Cut(s, ":")
	p, err := strconv.ParseInt(partition, 10, 32)
	o, oerr := strconv.ParseInt(offset, 10, 64)
	if err != nil || oerr != nil || p < 0 || o < 0 {
		return ID{}, ErrID
	}
	return ID{int32(p), o}, nil
}

// Letter is a dead letter.
type Letter struct {
	ID        ID        `json:"letter"`
	WrittenAt time.Time `json:"written_at"`       // by the worker's clock
	Reason    string    `json:"reason,omitempty"` // empty: it was not written by a worker of ours
	Omitted   string    `json:"omitted,omitempty"`

	// Where the record was, as the headers say.
	Topic      string     `json:"topic,omitempty"`
	Partition  *int32     `json:"partition,omitempty"`
	Offset     *int64     `json:"offset,omitempty"`
	RecordedAt *time.Time `json:"recorded_at,omitempty"`

	// Task and Workspace are what the value points at, empty where it cannot be read.
	Task      string `json:"task,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	// TaskStatus is the store's word on the task: "missing" when it knows none, empty when it was not asked.
	TaskStatus string `json:"task_status,omitempty"`

	Key        *Bytes   `json:"key"`
	ValueBytes int      `json:"value_bytes"`
	Value      *Bytes   `json:"value,omitempty"`   // only of a letter that is shown
	Headers    []Header `json:"headers,omitempty"` // the same

	key, value []byte
}

// Header is one of a record's.
type Header struct {
	Key   string `json:"key"`
	Value Bytes  `json:"value"`
}

// Bytes are text where they can be, and else an object {"base64": "…"}.
type Bytes []byte

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(b)})
}

// String is the text, or base64.
func (b Bytes) String() string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

// Whole adds value and headers to what is shown.
func (l Letter) Whole() Letter {
	if l.value != nil {
		v := Bytes(l.value)
		l.Value = &v
	}
	return l
}

// Readable reports whether a worker could make something of the record.
func (l Letter) Readable() bool { return l.Task != "" }

const headerPrefix = "fencepost-dlq-"

// maxValue bounds what is looked at for a pointer, as the worker does.
const maxValue = 4 << 10

func decode(r *kgo.Record) Letter {
	l := Letter{ID: ID{r.Partition, r.Offset}, WrittenAt: r.Timestamp.UTC(), ValueBytes: len(r.Value), key: r.Key, value: r.Value}
	if r.Key != nil {
		k := Bytes(r.Key)
		l.Key = &k
	}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, Header{h.Key, h.Value})
		value := string(h.Value)
		switch name, ours := strings.CutPrefix(h.Key, headerPrefix); {
		case !ours:
		case name == "reason":
			l.Reason = value
		case name == "omitted":
			l.Omitted = value
		case name == "topic":
			l.Topic = value
		case name == "partition":
			if n, err := strconv.ParseInt(value, 10, 32); err == nil {
				p := int32(n)
				l.Partition = &p
			}
		case name == "offset":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				l.Offset = &n
			}
		case name == "time":
			if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
				l.RecordedAt = &t
			}
		}
	}
	var v struct {
		V         int       `json:"v"`
		Task      uuid.UUID `json:"task"`
		Workspace string    `json:"workspace"`
	}
	if len(r.Value) <= maxValue && json.Unmarshal(r.Value, &v) == nil && v.V == 1 && v.Task != uuid.Nil && v.Workspace != "" {
		l.Task, l.Workspace = v.Task.String(), v.Workspace
	}
	return l
}
