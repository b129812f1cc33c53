// Package sdk runs OpenAI's official SDKs of Python and TypeScript, and Schemathesis, against fencepost dev. It is only
// tests; run.sh fetches what they want and runs them, and go test ./... leaves them out.
//
// The SDKs are unchanged but for the base URL and the header Idempotency-Key; their retries are at default. Between them and
// the API stands a proxy that resets connections. What is counted is counted by the simulated model: one call for each key.
// The examples are the README's own code blocks.
package sdk
