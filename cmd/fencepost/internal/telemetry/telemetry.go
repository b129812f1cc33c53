package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// ErrEndpoint: the address cannot be used.
var ErrEndpoint = errors.New("want a URL like http://localhost:4318")

// Config says where spans go and who sends them.
type Config struct {
	// Endpoint is the collector's base URL, to which /v1/traces is added. Empty: what OTEL_EXPORTER_OTLP_… say.
	Endpoint string
	Version  string
	// Instance tells this process from others.
	Instance string
	Logger   *slog.Logger
}

// Configured reports whether tracing is on: an endpoint is given, here or by the standard variables, and those do not turn
// it off.
func Configured(endpoint string, env func(string) (string, bool)) bool {
	get := func(name string) string {
		v, _ := env(name)
		return strings.ToLower(strings.TrimSpace(v))
	}
	if get("OTEL_SDK_DISABLED") == "true" || get("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return endpoint != "" || get("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// CheckEndpoint is nil or ErrEndpoint.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return ErrEndpoint
	}
	return nil
}

// Telemetry is a tasks.Tracer.
type Telemetry struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// scope names this program's spans among those of libraries.
const scope = "github.com/fencepost/fencepost"

// Open begins. It connects nowhere yet. ErrEndpoint.
func Open(ctx context.Context, c Config) (*Telemetry, error) {
	var opts []otlptracehttp.Option
	if c.Endpoint != "" {
		if err := CheckEndpoint(c.Endpoint); err != nil {
			return nil, err
		}
		opts = append(opts, otlptracehttp.WithEndpointURL(strings.TrimRight(c.Endpoint, "/")+"/v1/traces"))
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	// What the environment says goes before what is said here.
	who, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "fencepost"), attribute.String("service.version", c.Version),
			attribute.String("service.instance.id", c.Instance)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		c.Logger.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read in full", "error", err)
	}
	otel.SetErrorHandler(&complaints{log: c.Logger})
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(who), sdktrace.WithBatcher(exporter))
	return &Telemetry{provider: provider, tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(c.Version))}, nil
}

// Close sends what waits, for as long as ctx allows.
func (t *Telemetry) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// complaints logs what the library has to say, once in a while.
type complaints struct {
	log  *slog.Logger
	last atomic.Int64
}

const complainEvery = time.Minute

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	now, last := time.Now().UnixNano(), c.last.Load()
	if now-last < int64(complainEvery) || !c.last.CompareAndSwap(last, now) {
		return
	}
	c.log.Warn("spans cannot be sent; they are dropped, and nothing else is affected", "component", "telemetry", "error", err)
}
