// Package anthropic calls the Messages endpoint of Anthropic, or of any server that speaks it, the simulated model among
// them.
//
// It promises llm.Provider's contract: one request on the wire per Call, an answer that is complete, or an *llm.Failure
// whose words hold neither the API key nor the conversation. An answer that cannot be understood is ambiguous, since it was
// probably paid for.
//
// A stream is whole at its message_stop, and also when it breaks off behind a stop reason with every block of text ended:
// nothing of the answer can be missing then, and calling it lost would pay for it twice. Kinds of events and of blocks
// that are not known are passed over, as Anthropic asks of its clients.
//
// It starts no goroutine and holds no lock; Close closes the connections that llm.Client kept.
//
// A lost answer is recovered by a key alone, where the operator declares that a gateway in front documents one: the endpoint
// itself has no idempotency key and no look-up.
//
// It does not offer tools.
package anthropic
