package lag

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Status is the judgement of one partition, or of all of them together.
type Status string

// The statuses, from the best to the worst.
const (
	OK Status = "OK"
	// Warn: the position moves and the lag never falls.
	Warn Status = "WARN"
	// NoCommit: the group has committed nothing, and there are records.
	NoCommit Status = "NO_COMMIT"
	// Rewind: the position went back, or will, since the log that it was committed for is gone.
	Rewind Status = "REWIND"
	// Blocked: one record has held the position back for long, while records behind it are settled.
	Blocked Status = "BLOCKED"
	// Stall: a member has the partition, and nothing moves.
	Stall Status = "STALL"
	// Stop: there is something to do and no member has the partition.
	Stop Status = "STOP"
	// Unknown: it could not be read. It is not shown as any of the others, and its numbers are absent, never 0.
	Unknown Status = "UNKNOWN"
)

// Statuses lists them in the order of how bad they are.
var Statuses = []Status{OK, Warn, NoCommit, Rewind, Blocked, Stall, Stop, Unknown}

// Offset is a place in a log or a number of records. None is unknown or not there, and null in JSON.
type Offset int64

// None is no offset.
const None Offset = -1

// IsZero reports None, for omitzero.
func (o Offset) IsZero() bool { return o < 0 }

// MarshalJSON writes None as null.
func (o Offset) MarshalJSON() ([]byte, error) {
	if o < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(o), 10), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (o *Offset) UnmarshalJSON(text []byte) error {
	*o = None
	if string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, (*int64)(o))
}

// Seconds is a duration or a rate. Negative is unknown, and null in JSON.
type Seconds float64

// NoSeconds is an unknown duration.
const NoSeconds Seconds = -1

// Known reports whether it is a number.
func (s Seconds) Known() bool { return s >= 0 && !math.IsInf(float64(s), 0) }

// Duration is s as a duration; 0 when unknown.
func (s Seconds) Duration() time.Duration {
	if !s.Known() {
		return 0
	}
	return time.Duration(float64(s) * float64(time.Second))
}

// MarshalJSON writes milliseconds' precision, and null for what is unknown.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if !s.Known() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, math.Round(float64(s)*1000)/1000, 'f', -1, 64), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	*s = NoSeconds
	if string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, (*float64)(s))
}

func seconds(d time.Duration) Seconds { return Seconds(max(0, d).Seconds()) }

// Report is what could be read of a group and a topic at about one moment. Its JSON is the contract of `fencepost lag
// -o json` and /lag.json: fields are only added.
type Report struct {
	At         time.Time `json:"at"` // by this process's clock, which the ages are counted by, too
	Group      string    `json:"group"`
	Topic      string    `json:"topic"`
	TopicID    [16]byte  `json:"-"`
	State      string    `json:"state"` // the group's, in Kafka's words; UNKNOWN when it could not be read
	Members    int       `json:"members"`
	Offsets    string    `json:"offsets"` // "kafka", or "postgres" where positions are kept with the replies
	Status     Status    `json:"status"`  // the worst of the partitions
	TotalLag   Offset    `json:"total_lag"`
	MaxSeconds Seconds   `json:"max_lag_seconds"`
	// Complete: every partition could be read, so the two numbers above are all of it.
	Complete   bool        `json:"complete"`
	Problems   []string    `json:"problems,omitempty"` // what could not be read beside the partitions
	Partitions []Partition `json:"partitions"`
	// MemberList is every member, also of those without a partition of this topic.
	MemberList []Member `json:"member_list,omitempty"`
}

// Partition is one partition. Offsets that are not known are None.
type Partition struct {
	Partition int32  `json:"partition"`
	Start     Offset `json:"start"` // of the log
	Committed Offset `json:"committed"`
	// LeaderEpoch is what was committed with it, None without.
	LeaderEpoch Offset `json:"committed_leader_epoch,omitzero"`
	// Stored is the position in the database; None where positions are not kept there. The group's commits follow it.
	Stored Offset `json:"stored,omitzero"`
	// Position is the first offset that neither the commit nor the database calls settled: where work goes on.
	Position Offset `json:"position"`
	End      Offset `json:"end"` // of the log: the high watermark
	// Lag is the records from the commit, or from the log's start without one, to the end. It is the difference of the
	// offsets, as Kafka's own tool has it, unless Exact.
	Lag Offset `json:"lag"`
	// Exact: Lag counts records that can be read, so neither what compaction took away nor markers of transactions.
	Exact      bool    `json:"exact"`
	LagSeconds Seconds `json:"lag_seconds"` // age of the record at the position; 0 with none
	Status     Status  `json:"status"`
	Why        string  `json:"why,omitempty"` // a sentence for a person, where Status is not OK
	Member     string  `json:"member,omitempty"`
	ClientID   string  `json:"client_id,omitempty"`
	Host       string  `json:"host,omitempty"`
	// SettledAhead is the offsets beyond the position that are settled.
	SettledAhead Offset `json:"settled_ahead"`
	Head         *Head  `json:"head"`
	// Rate is how fast the position moves, in records a second; ETASeconds is how long Lag takes at that rate. Unknown
	// without two samples, and where nothing moves.
	Rate       Seconds `json:"rate"`
	ETASeconds Seconds `json:"eta_seconds"`
}

// unread is a partition of which nothing is known.
func unread(n int32) Partition {
	return Partition{
		Partition: n, Start: None, Committed: None, LeaderEpoch: None, Stored: None, Position: None, End: None, Lag: None,
		LagSeconds: NoSeconds, SettledAhead: None, Rate: NoSeconds, ETASeconds: NoSeconds,
	}
}

// UnmarshalJSON leaves what is absent unknown.
func (p *Partition) UnmarshalJSON(text []byte) error {
	type plain Partition
	*p = unread(0)
	return json.Unmarshal(text, (*plain)(p))
}

// Head is the record that holds a position back.
type Head struct {
	Offset     Offset  `json:"offset"`
	Task       string  `json:"task,omitempty"` // empty: it does not point at one
	Workspace  string  `json:"workspace,omitempty"`
	AgeSeconds Seconds `json:"age_seconds"` // since the record's own time
	Attempt    *int    `json:"attempt"`     // of the task: how often a call was begun; null where the store was not asked
	TaskStatus string  `json:"task_status,omitempty"`
}

// Member is one member of the group.
type Member struct {
	ID         string  `json:"id"`
	InstanceID string  `json:"instance_id,omitempty"`
	ClientID   string  `json:"client_id"`
	Host       string  `json:"host"`
	Partitions []int32 `json:"partitions"` // of the topic
	Lag        Offset  `json:"lag"`        // of them together
}

// summarize fills in what is the partitions' together.
func (r *Report) summarize() {
	r.TotalLag, r.MaxSeconds, r.Complete, r.Status = 0, 0, true, OK
	lag := make(map[string]Offset)
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if p.Lag < 0 {
			r.Complete = false
		} else {
			r.TotalLag += p.Lag
			lag[p.Member] += p.Lag
		}
		r.MaxSeconds = max(r.MaxSeconds, p.LagSeconds)
		r.Complete = r.Complete && p.LagSeconds.Known()
		r.Status = worse(r.Status, p.Status)
	}
	for i := range r.MemberList {
		r.MemberList[i].Lag = lag[r.MemberList[i].ID]
	}
}

func worse(a, b Status) Status {
	for _, s := range Statuses {
		if s == a {
			return b
		}
		if s == b {
			return a
		}
	}
	return Unknown
}
