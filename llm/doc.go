// Package llm is what the product asks of a language model, and the means the adapters in its sub-folders share.
//
// Promise. One Provider.Call is one attempt, and one attempt puts at most one request on the wire (I5): Client dials,
// writes the request once, reads one answer. It follows no redirect, repeats nothing, speaks HTTP/1.1 only and never
// asks another layer to do better. What was written is counted at the connection, so that "not sent" is a fact and not a
// guess. Every failure has a Class, decided by one table (classify.go); an answer is complete, acceptable by its finish
// reason (finish.go), valid UTF-8 and without NUL (text.go). What is not reported is unknown: a missing usage is nil,
// never 0.
//
// Streams. Client.Stream hands out server-sent events as they arrive, bounded by line, event and whole, and gives up on
// silence by name (ErrFirstToken, ErrIdle). Half an event is never handed out; whether the events make a whole answer is
// the adapter's to judge, by its provider's terminal marker.
//
// Why not net/http's Transport. It repeats requests of its own accord (with an Idempotency-Key header on a reused
// connection, and over HTTP/2 without an end), and a call that waits costs it three goroutines: 32 KiB against 14 KiB
// here, where thousands of calls wait for seconds.
//
// Goroutines and locks. A call runs on its caller's goroutine. One more exists only at the moment a context ends, to
// interrupt the connection, and the call waits for it. One lock guards the idle connections of a Client that was asked to
// keep them, and one the counters of a Gate; no I/O is done under either.
//
// Admission. A Gate says when calls of this process may begin: within limits on requests and tokens (limit.go), not before
// the moment a provider asked all calls to wait for, and not while a breaker knows that they fail (breaker.go: no money,
// a wrong key, nobody there, nothing usable). It hands out places for a minute's queue and refuses beyond it. It counts and
// never waits; an attempt is counted by its caller only when it was let through, so that an outage costs no attempts.
//
// What a call costs is known exactly or not at all: Prices multiplies the reported tokens by whole picodollars, from a
// dated table (prices.csv) that an operator's file overrides. A model it does not list has an unknown price, and so has a
// call billed at a service tier without rates of its own.
//
// README.md lists what went wrong between other programs and models, and the test that shows what happens here.
//
// Recovery. A Recoverer finds out what became of a call whose answer was lost, in the one way that its operator declared
// (RecoveryConfig). Its questions go on the wire one by one (Endpoint.Ask), paced and ended by Polling; they generate nothing
// and are counted apart, as Report.Lookups. A miss is ErrNoTrace, and no proof that nothing was charged.
//
// It does not retry a call, and does not decide on a second one: that is the caller's, who has counted the attempt.
package llm
