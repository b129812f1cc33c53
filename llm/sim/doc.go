// Package sim is the simulated model: a server of OpenAI's Chat Completions and Responses and of Anthropic's Messages,
// streamed and not, whose answers are deterministic, whose failures are scripted by rules, and whose ledger counts every
// call that reached it, outside the product that is being tested.
//
// It promises that a call is in the ledger before it is answered, so that a killed client or a killed server hides none;
// that a rule's failure happens after the whole request was read; and that the same request gets the same answer.
//
// # Rules
//
// PUT /sim/rules takes a list of rules (see rule and match for their fields). The first that fits a call decides. Do is
//
//	answer                an answer; the default
//	status                status (default 500) with body, or with the provider's own error body; nothing is generated
//	reset_before_headers  the connection is reset (RST) before anything is answered
//	reset_after_headers   the same behind the headers
//	cut_stream            the connection is cut in the middle of the answer, between two events
//	cut_event             the same within an event, and within a character when it has one of several bytes
//	end_early             the answer ends in its middle as if it were whole: its length is said by the connection's end
//	stall                 the answer stands still in its middle until the client leaves
//	hang                  nothing is answered until the client leaves; nothing is generated
//	no_marker             a stream ends without its terminal marker
//	no_usage              no usage is reported
//	early_usage           a stream reports a usage of zeros first, and the real one at its end
//	error_before_output   a stream is an error event (body); an answer is an error under status 200
//	error_after_output    the same behind some text
//	fail                  a response of status failed, with body as its error; elsewhere as error_after_output
//	empty                 an answer without text
//	garbage               bytes that are no answer
//	bad_text              the text ends with a NUL, half a surrogate pair and bytes that are no UTF-8
//	refuse                the text is a refusal
//	tool_call             a tool is called, which nobody offered
//
// What they do in a stream comes after chunks pieces of text (default: half of them). Body is sent as it is: "null", a
// page of HTML or {"error": "a string"} need no words of their own. Finish_reason is sent instead of the real one ("":
// none is sent); for a response it is the reason why it is incomplete. Text, the token counts (cached_tokens and
// cache_write_tokens are part of input_tokens, reasoning_tokens of output_tokens), chunk_latency before each piece and
// line_bytes, the length that each piece's line is brought to, go with every word. Tool_calls, each with function.name and
// function.arguments, are called by an answer of chat completions, offered or not, with text before them or without.
//
// # Answers that can be asked for later
//
// Responses are stored unless store is false, completions when store is true: GET by id, and by metadata for
// completions. A response in the background is generated whether or not its client stays, is queued, in progress and
// then at its end after the rule's latency, and can be cancelled, polled, and streamed again from a place; what a rule
// breaks is the first connection, except that hang never ends and fail ends as failed. With an idempotency_header, the
// same key and body get the same answer again, without the fault that the first had on its way. None of these requests
// generates anything: they are in GET /sim/lookups and counted in the totals, and are no calls in the ledger. All of it
// is in memory only. PUT /sim/settings says how it behaves (see settings; what is not said is reset to its default).
//
// # Billing
//
// Every call that reaches the model is billed in full, also when its answer is lost or its client has left: a provider
// finishes what it has started. With bill_on_disconnect false it stops instead: the input is billed, and of the output
// what was streamed. Status answers and hanging calls bill nothing. A rule's token counts win.
//
// # Goroutines and locks
//
// Requests run on their server's goroutines, responses in the background on one each; Close lets go of those that hang
// and waits for those in the background. One lock each guards the rules, the ledger, the settings, the lookups, the
// stored answers and the keys; none is held while anything is written to a client.
//
// It checks no API key and has no limits of a model's own; it is for tests, benchmarks and development.
package sim
