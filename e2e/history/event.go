package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Op is what was done. The package comment says which fields each has.
type Op string

// The operations.
const (
	Submit     Op = "submit"
	Claim      Op = "claim"
	Renew      Op = "renew"
	Settle     Op = "settle"
	Cancel     Op = "cancel"
	Read       Op = "read"
	Call       Op = "call"
	Commit     Op = "commit"
	Wire       Op = "wire"
	Record     Op = "record"
	DeadLetter Op = "deadletter"
	Deleted    Op = "deleted"
	Attempt    Op = "attempt"
	Final      Op = "final"
	Killed     Op = "killed"
	Quiet      Op = "quiet"
)

// Type is how much is known of it.
type Type string

// The types.
const (
	Invoke  Type = "invoke"
	OK      Type = "ok"
	Fail    Type = "fail"
	Info    Type = "info"
	Applied Type = "applied"
)

// Event is one line of a history. Zero fields are left out.
type Event struct {
	T    time.Duration `json:"t"`            // since the beginning; of applied events by the store's clock
	ID   int64         `json:"id,omitempty"` // the same on all events of one operation on one task
	Proc string        `json:"proc,omitempty"`
	Op   Op            `json:"op"`
	Type Type          `json:"type"`

	Task         string `json:"task,omitempty"`
	Workspace    string `json:"workspace,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Key          string `json:"key,omitempty"`
	Inputs       string `json:"inputs,omitempty"`
	MaxAttempts  int    `json:"max_attempts,omitempty"`

	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Ahead     []Span `json:"ahead,omitempty"`

	Version    int64         `json:"version,omitempty"`
	Attempt    int           `json:"attempt,omitempty"`
	LeaseUntil time.Duration `json:"lease_until,omitempty"`
	Outcome    string        `json:"outcome,omitempty"`
	Verdict    string        `json:"verdict,omitempty"`
	Status     string        `json:"status,omitempty"`
	Reply      string        `json:"reply,omitempty"`
	Handoff    bool          `json:"handoff,omitempty"`
	Tokens     *Tokens       `json:"tokens,omitempty"` // nil: unknown
	Note       string        `json:"note,omitempty"`
}

// Span is a half-open range of offsets.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Tokens is a usage report.
type Tokens struct {
	In  int64 `json:"in"`
	Out int64 `json:"out"`
}

// Encode writes events as JSON lines.
func Encode(w io.Writer, events []Event) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	for i := range events {
		if err := lines.Encode(&events[i]); err != nil {
			return fmt.Errorf("history: event %d: %w", i, err)
		}
	}
	return out.Flush()
}

// Decode reads what Encode wrote, and whatever other program writes such lines.
func Decode(r io.Reader) ([]Event, error) {
	var events []Event
	lines := json.NewDecoder(r)
	for {
		var e Event
		if err := lines.Decode(&e); err == io.EOF {
			return events, nil
		} else if err != nil {
			return events, fmt.Errorf("history: event %d: %w", len(events), err)
		}
		events = append(events, e)
	}
}
