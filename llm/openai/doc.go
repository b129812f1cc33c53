// Package openai calls OpenAI's Chat Completions (Provider) and Responses (Responses), of OpenAI itself or of any server that
// speaks them: vLLM, Ollama, llama.cpp, a gateway, the simulated model. A Profile says what such a server can do.
//
// It promises llm.Recoverer's contract: one request for an answer on the wire per Call, an answer that is complete, or an
// *llm.Failure whose words hold neither the API key nor the conversation. Its decoders trust nothing: servers differ in
// everything but the fields read here, and an answer that cannot be understood is ambiguous, since it was probably paid for.
//
// # Streams
//
// A stream of Chat Completions is whole when a finish reason for choice 0 was followed by [DONE] or by the end of a body
// that did not break off. A stream of a response is whole at the event that ends it, and that event's own copy of the
// response is what is judged. What came of a stream that is not whole is never an answer.
//
// # Lost answers
//
// How they are found is declared, never inferred (llm.RecoveryConfig):
//
//   - Stored completions carry the attempt's name in their metadata and are listed by it. Every one of a list is looked
//     at, since a server that ignores the filter lists other calls' answers. A miss counts after the settle delay, and is
//     still no proof.
//   - A response in the background has its id noted before anything else of it is read. A connection that dies behind that
//     is followed by questions (GET), which go on behind the last event where the stream can be resumed; they generate
//     nothing. When the context ends, the response is cancelled, unless llm.ErrHandedOn is its cause: then another
//     process finds it by its id. If the first answer is lost with the id in it, there is nothing to look for.
//   - A key is the attempt's name in a header, noted before it is sent. The same request under it is sent again only while
//     the server is documented to remember it.
//
// Without the background a response is asked not to be stored: nobody would look for it.
//
// It starts no goroutine and holds no lock; Close closes the connections that llm.Client kept. It offers
// tools only where llm.Request.Chat does, which Chat Completions sends as it came and Responses translates, or refuses.
package openai
