// Package httpapi is the submission API: it answers 202 only for what is stored, and the same task for the same key.
//
// # What it promises
//
//   - A 202 is written after the transaction that holds message, submission, task and handoff has committed (I3).
//   - When the outcome of a submission is not known, the answer says so and asks for a repeat under the same key; it never
//     claims that nothing was stored. A repeat is safe, since the key decides (I6).
//   - Another workspace's object is answered exactly as one that does not exist (I8).
//   - Every input is bounded: body, fields, headers, waiters, requests and bytes in hand.
//   - Every error is application/problem+json with a stable code and, where one is to blame, the field; at the door below it
//     has OpenAI's shape, with the same codes.
//   - openapi.json describes every route, field, answer and code; it is served, and as a page at /docs. The tests hold each
//     answer that they get against it: what is new is described there first.
//
// Checks come in this order: credentials, scope, Idempotency-Key, conversation, body, room (admit.go), store. So a request
// that is refused has bound no key, and one without the scope learns of nothing but its own API key.
//
// # Choices that the interface leaves open
//
//   - A body that is not application/json is 415 with code invalid_request; a method that a route does not have is 405
//     with code method_not_allowed.
//   - Text with a NUL, invalid UTF-8 or half a surrogate pair is refused, not silently changed. Content is stored as sent,
//     and must have something besides white space.
//   - wait is a Go duration or a number of seconds. More than Limits.MaxWait is cut to it, and limit to Limits.MaxPage:
//     what was not had yet is had by asking again.
//   - An unknown query parameter is refused, because a misspelt filter would otherwise answer with everything.
//   - The fingerprint is taken of what the caller sent, before the server's default model is filled in: a new default must
//     not turn a repeat into a 422. The version of a prompt template is in it; a message that left it open is compared by
//     the version that its first submission was accepted with (repeat.go).
//   - A template is applied when a message is accepted. Its text stands before the caller's system text, and is not in the
//     fingerprint: the name and the version are.
//   - A budget is judged after the key: a replay costs nothing and is never refused, and what is refused leaves its key free.
//   - The workspace's rate and its bound on unfinished tasks are judged before the store is asked, and let a repeat of accepted
//     work pass. The rate is this process's own: what all of them let in is the bound times their number.
//   - Idempotency-Expires is RFC 3339, as every instant of this API. A key is known for Defaults.Retention, or for an hour
//     beyond the task's deadline where that is longer. From then on the same request is new work.
//   - Fencepost-Natural-Key is a key of its own operation, which all routes and callers of a workspace share. It goes before an
//     Idempotency-Key in the same request. What is not the same work under it (another conversation, another route) is 422.
//   - Inputs are compared in one form: whole numbers in any form of JSON, texts in NFC (tasks.Normal), chat requests as
//     canonical JSON (canonical.go). What is stored and sent on is what came.
//   - Fencepost-Saved-Amount and -Tokens, on a replay of a finished task, are what that task has cost altogether.
//   - Cancelling says in "changed" whether it changed anything.
//   - Regenerating is allowed of any task of the workspace, also of one that goes on. The body may be empty, or have model,
//     temperature, max_output_tokens and metadata; all else is as it was, a template's text included. Attempts and deadline
//     are this server's defaults.
//   - The id of an event is a cursor (cursor.go) and means the same to every process. After one that says that the task has
//     ended there is nothing: 204, which is what ends an EventSource. One that is newer than the task is answered by reset.
//   - A status has no more of the task than its state, since it is told without asking the store. Of states that came and
//     went between two polls only the last is told.
//   - Tokens are a courtesy. When some are lost, those after them are not told, and the reply has all; a reset comes only
//     from another attempt. What was not had when the task ends is not sent any more.
//   - A stream is as long as its task. Its key is looked up again while it lasts, so that a revoked one ends it within
//     seconds of the next event.
//
// # The OpenAI-compatible door
//
// POST /v1/chat/completions (chat.go) makes a task in a conversation of its own and waits for it. Messages and parameters
// are stored and sent on byte for byte; what is not in the tables (chatfields.go, chatmessages.go) is refused by name, and
// what asks for nothing (n: 1, store: false, null) is left out. Metadata is the task's, and is not sent on.
//
//   - stream and stream_options are no inputs of the answer: a reply that was asked for whole can be asked for as a stream.
//   - A wait that ends first, at Limits.MaxChatWait, is 409 idempotency_in_progress; a client that leaves cancels nothing.
//   - A task that has failed for good answers the same error each time, its class as the code: 400 permanent, 422
//     rejected_output, 429 quota and rate_limited, 502 ambiguous and not_sent, 503 overloaded, 504 deadline, 410 cancelled,
//     500 what is our fault. X-Should-Retry says what SDKs cannot read off a status: true only where the same request may come
//     to something else.
//   - A stream sends nothing before the first token, so that an early failure has its status. Once another attempt has taken
//     over, it goes on only behind a saved reply that begins with what was sent; else it ends with attempt_replaced. A stream
//     that does not end with [DONE] is no answer.
//
// # Who owns what
//
// Run owns the goroutines of the batcher (batch.go: one collector, a few committers) and of the waiter hub (hub.go:
// one poll for all waiters and streams) and tells the store which keys were used (touch.go), and returns when they have ended.
// Handlers own nothing that outlives them; a submission whose client went away is finished all the same. hub.mu guards
// the waiters, keyCache.mu the known keys; neither is held over a call of the store.
//
// Ending in order: Drain (for http.Server.RegisterOnShutdown) lets waits end as they stand and has streams connect again
// elsewhere, http.Server.Shutdown waits for
// the handlers, then Run's context is cancelled and what is still queued is stored.
//
// # What it does not do
//
// It has no timeouts for slow clients: those are http.Server's (MaxHeaderBytes, ReadHeaderTimeout, ReadTimeout and
// WriteTimeout, which a wait moves). Only a stream's reader is timed here (stream.go), since nothing else would be. It never calls a model and knows no Kafka.
package httpapi
