package llm

import (
	"context"
	"encoding/json"
	"math"
	"time"
)

// Provider calls a model. One Call puts at most one request on the wire, whatever happens (I5); retrying is the
// caller's, who has counted the attempt.
type Provider interface {
	// Name is the provider's word in the ledger: "sim", "openai", ...
	Name() string
	// Call returns a complete, acceptable answer, or an error that is always a *Failure. It obeys ctx, and reports the
	// cause of a cancelled ctx in the Failure's chain.
	Call(ctx context.Context, req Request) (Answer, error)
}

// Request is one call.
type Request struct {
	Model           string
	System          string
	History         []Message // what was said before, oldest first
	Content         string    // the message to answer
	Chat            *Chat     // nil: there is nothing but the other fields
	Temperature     *float64
	MaxOutputTokens *int
	TraceParent     string // sent as the traceparent header when not empty

	// Op names the attempt, for providers with a way to recover: it is unique for each, and short printable ASCII.
	Op string
	// Noted is told, before Call goes on, what a lost answer can be looked up by as soon as that is known, and must make it
	// durable. Its error ends the call: NotSent when nothing was sent yet. Nil: there is nobody to remember it.
	Noted func(ctx context.Context, ref string) error
	// Text is told each piece of a streamed answer as it comes, by the goroutine of the call: it must not block. A piece is
	// no answer. Nil: nobody listens.
	Text func(piece string)
}

// Chat is a request in the words of OpenAI's chat completions. Where it is set, History, System and Content repeat parts of
// it, for people; an adapter that cannot send all of it refuses the call as Permanent and leaves nothing out.
type Chat struct {
	Messages json.RawMessage // an array
	Params   json.RawMessage // an object, without model, messages, stream and stream_options; nil: none
}

// Message is something said earlier in the conversation.
type Message struct {
	Role Role
	Text string
}

// Role says whose a message is.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Answer is a candidate: a complete answer with its terminal marker. Text is valid UTF-8 without NUL, and not empty
// where there is no Message.
type Answer struct {
	Text         string
	FinishReason string
	// Message is the whole message of a provider that speaks OpenAI's language, where it is more than text: tool calls that
	// Request.Chat has offered. Text may then be empty. Nil otherwise.
	Message json.RawMessage
	Report
}

// Report is what an attempt did at the provider, answered or failed. It goes into the ledger.
type Report struct {
	WireRequests int    // requests for an answer that were written to a connection, as counted by the transport
	Lookups      int    // further requests that only asked about such a one, or cancelled it; they generate nothing
	RequestID    string // the provider's, when it gave one
	Model        string // as the provider reported it, or empty
	Usage        *Usage // nil: nothing was reported, the cost is unknown
}

// Usage counts tokens as the provider billed them. The three kinds of input are disjoint, however the provider reports
// them: their rates differ, and a token in two of them would be paid twice.
type Usage struct {
	InputTokens       int64 // neither read from a cache nor written to one
	CachedInputTokens int64 // read from the provider's prompt cache
	CacheWriteTokens  int64 // written to it
	OutputTokens      int64 // everything the model produced, reasoning included
	ReasoningTokens   int64 // the part of OutputTokens that nobody sees; it costs what output costs

	// Tier is the service tier the call was billed at, in the provider's word; LongCache behind it. See Prices.Cost.
	Tier string
}

// Input is all input, cached or not.
func (u Usage) Input() int64 {
	sum := u.InputTokens
	for _, n := range [...]int64{u.CachedInputTokens, u.CacheWriteTokens} {
		if n > math.MaxInt64-max(sum, 0) {
			return math.MaxInt64 // nonsense of a server's must not come out as a small or negative count
		}
		sum += n
	}
	return sum
}

// Failure is why a call brought no acceptable answer.
type Failure struct {
	Class      Class
	Message    string        // for people; never a secret, never the prompt
	Status     int           // HTTP status, 0 when there was none
	RetryAfter time.Duration // the provider's word, 0 when it gave none
	Err        error         // the cause, for errors.Is
	// Config: it is our key, address, permission or model that is refused, as it will be for other requests.
	Config bool
	// Final: the provider says that asking again is of no use, whatever the class says.
	Final bool
	Report
}

// Error names the class, the status and what was said.
func (f *Failure) Error() string { return string(f.Class) + ": " + f.Message }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }
