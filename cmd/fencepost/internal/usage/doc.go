// Package usage reads what a provider says was used, and compares it with the ledger. It promises that an export is either
// read whole or refused with the line that is wrong, in bounded memory, and that every difference is named.
//
// # Exports
//
// Three forms are known by their content, not by the file's name:
//
//   - CSV with a header: date or start_time, model, input_tokens, output_tokens, and, where there are, requests,
//     cached_input_tokens, amount, request_id. Other columns are skipped.
//   - Pages of OpenAI's organization usage of completions, and
//   - of Anthropic's usage report of messages, as their APIs send them, one page after another.
//
// Input tokens are all of them, cached or not, as the ledger has them; where a provider reports the kinds apart they are
// added up.
//
// # Comparing
//
// Where each row has a request id, requests are compared one by one; else the sums of a UTC day and a model. A call that
// ran over midnight may be of one day here and of the next one there. Amounts are shown and never compared: providers
// round them, and take what they take.
package usage
