package sim

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Bounds of the ledger in memory. What is dropped stays in the totals and in the file.
const (
	maxEntries      = 1_000_000
	maxContentBytes = 256 << 20
)

// entry is one call that arrived.
type entry struct {
	N            int64           `json:"n"`
	Time         time.Time       `json:"time"`
	Model        string          `json:"model"`
	Content      string          `json:"content"`                // the last user message
	Messages     int             `json:"messages,omitempty"`     // without what the system is told
	SystemBytes  int             `json:"system_bytes,omitempty"` // of that
	Headers      headers         `json:"headers"`
	Params       json.RawMessage `json:"params,omitempty"` // of a chat completion: what else it asked for
	Done         string          `json:"done"`             // empty while the call is under way, or when the server was killed in it
	Status       int             `json:"status,omitempty"`
	ClientGone   bool            `json:"client_gone"` // by the end of the call
	InputTokens  int64           `json:"input_tokens"`
	OutputTokens int64           `json:"output_tokens"`

	epoch int
}

// headers are those that matter to who called and whether it was a repetition.
type headers struct {
	IdempotencyKey string `json:"idempotency-key,omitempty"`
	TraceParent    string `json:"traceparent,omitempty"`
	RequestID      string `json:"x-request-id,omitempty"`
}

// totals are sums over every call since the ledger began or was deleted.
type totals struct {
	Requests     int64 `json:"requests"`
	InFlight     int64 `json:"in_flight"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Listed       int64 `json:"listed"`  // of them still in memory
	Lookups      int64 `json:"lookups"` // requests that asked for an earlier answer, since the server began
}

// ledger holds the calls in memory, and in a file when there is one.
type ledger struct {
	mu      sync.Mutex
	entries []*entry // entries[head:] are listed
	head    int
	content int64
	sums    totals
	last    int64 // the last n given
	epoch   int   // changes when the ledger is deleted: calls under way then are no longer its own
	file    *ledgerFile
}

// arrive lists a call.
func (l *ledger) arrive(e *entry) error {
	e.Time = time.Now().UTC()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.N, e.epoch = l.last, l.epoch
	l.sums.InFlight++
	l.add(e)
	return l.file.write(fileLine{Arrived: e})
}

func (l *ledger) add(e *entry) {
	l.sums.Requests++
	l.entries = append(l.entries, e)
	l.content += int64(len(e.Content))
	for len(l.entries)-l.head > maxEntries || l.content > maxContentBytes && len(l.entries)-l.head > 1 {
		l.content -= int64(len(l.entries[l.head].Content))
		l.entries[l.head] = nil
		l.head++
	}
	if l.head > 1024 && l.head > len(l.entries)/2 {
		l.entries = append(l.entries[:0], l.entries[l.head:]...)
		l.head = 0
	}
}

// end writes down how a call ended.
func (l *ledger) end(e *entry, done string, status int, gone bool, in, out int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.epoch != l.epoch {
		return nil
	}
	l.sums.InFlight--
	l.finish(e, ended{N: e.N, Done: done, Status: status, ClientGone: gone, InputTokens: in, OutputTokens: out})
	return l.file.write(fileLine{Ended: &ended{e.N, done, status, gone, in, out}})
}

func (l *ledger) finish(e *entry, d ended) {
	e.Done, e.Status, e.ClientGone, e.InputTokens, e.OutputTokens = d.Done, d.Status, d.ClientGone, d.InputTokens, d.OutputTokens
	l.sums.InputTokens += d.InputTokens
	l.sums.OutputTokens += d.OutputTokens
}

// clear forgets every call, also in the file. Numbers go on, so that no two calls ever share one.
func (l *ledger) clear() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.head, l.content, l.sums = nil, 0, 0, totals{}
	l.epoch++
	return l.file.clear(l.last)
}

func (l *ledger) total() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.sums
	out.Listed = int64(len(l.entries) - l.head)
	return out
}

// list writes all calls as a JSON list, a piece at a time, so that a slow reader holds up nobody.
func (l *ledger) list(w io.Writer) error {
	const piece = 256
	sep := "["
	for after := int64(0); ; {
		batch := l.after(after, piece)
		for i := range batch {
			if _, err := io.WriteString(w, sep); err != nil {
				return err
			}
			sep = ",\n"
			b, err := json.Marshal(&batch[i])
			if err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			after = batch[i].N
		}
		if len(batch) < piece {
			break
		}
	}
	if sep == "[" {
		_, err := io.WriteString(w, "[]\n")
		return err
	}
	_, err := io.WriteString(w, "]\n")
	return err
}

// after returns copies of up to n listed calls with a number above after.
func (l *ledger) after(after int64, n int) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	listed := l.entries[l.head:]
	lo, hi := 0, len(listed)
	for lo < hi {
		if mid := (lo + hi) / 2; listed[mid].N <= after {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	listed = listed[lo:min(lo+n, len(listed))]
	out := make([]entry, len(listed))
	for i, e := range listed {
		out[i] = *e
	}
	return out
}
