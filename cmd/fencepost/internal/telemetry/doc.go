// Package telemetry sends spans to an OpenTelemetry collector, by OTLP over HTTP. It is the only package that knows
// OpenTelemetry: the others ask a tasks.Tracer, which is nil when nothing is configured.
//
// It promises never to hold up or fail what is traced: spans wait in a bounded queue, those that do not fit are dropped,
// and a collector that is away costs a line in the log, once a minute at most. What is sent besides spans is what the
// standard variables say (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and
// the like). Close sends what waits and ends the goroutine that sends.
package telemetry
