// Package sim is the simulated model: a server of OpenAI's Chat Completions and of Anthropic's Messages, streamed and not, whose
// answers are deterministic, whose failures are scripted by rules, and whose ledger counts every call that reached it, outside the product that is being tested.
//
// It promises that a call is in the ledger before it is answered, so that a killed client or a killed server hides none;
// that a rule's failure happens after the whole request was read; and that the same request gets the same answer.
//
// Billing. Every call that reaches the model is billed in full, also when its answer is lost or its client has left:
// a provider finishes what it has started. Status answers and hanging calls bill nothing. A rule's token counts win.
//
// Goroutines and locks. Requests run on their server's goroutines; Close lets go of those that hang. One lock guards the
// rules, another the ledger; neither is held while anything is written to a client.
//
// It checks no API key and has no limits of a model's own; it is for tests, benchmarks and development.
package sim
