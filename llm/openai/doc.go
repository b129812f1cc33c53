// Package openai calls the Chat Completions endpoint of OpenAI, or of any server that speaks it: vLLM, Ollama, llama.cpp,
// a gateway, the simulated model.
//
// It promises llm.Provider's contract: one request on the wire per Call, an answer that is complete, or an *llm.Failure
// whose words hold neither the API key nor the prompt. Its decoder trusts nothing: servers differ in everything but the
// fields read here, and an answer that cannot be understood is ambiguous, since it was probably paid for.
//
// It starts no goroutine and holds no lock; Close closes the connections that llm.Client kept.
//
// A stream is whole when a finish reason for choice 0 was followed by [DONE] or by the end of a body that did not break
// off. What came of one that is not whole is never an answer.
//
// It does not offer tools, or recover a lost answer: the endpoint documents no idempotency key.
package openai
