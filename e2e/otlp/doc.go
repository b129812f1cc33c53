// Package otlp is an OpenTelemetry collector for tests: it takes traces by OTLP over HTTP and keeps them in memory. It owns
// one HTTP server, which ends with the test.
package otlp
