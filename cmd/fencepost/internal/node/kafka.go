package node

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kprom"
	"github.com/twmb/franz-go/plugin/kslog"
)

// Kafka is how to reach the brokers, and what to use there.
type Kafka struct {
	Brokers []string
	Topic   string
	Group   string

	TLS    bool
	CAFile string // empty: the system's authorities

	SASL     string // "", "plain", "scram-sha-256", "scram-sha-512"
	User     string
	Password string
}

// DLQ is the topic of dead letters.
func (k Kafka) DLQ() string { return k.Topic + ".dlq" }

// Address is the brokers for messages.
func (k Kafka) Address() string { return strings.Join(k.Brokers, ",") }

// Options are what each client of a role needs. With a registry, the role's clients are counted there together.
func (k Kafka) Options(role string, reg prometheus.Registerer, log *slog.Logger) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(k.Brokers...),
		kgo.ClientID("fencepost-" + role),
		kgo.WithLogger(quiet{kslog.New(log.With("component", "kafka", "role", role))}),
	}
	if k.TLS {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if k.CAFile != "" {
			pem, err := os.ReadFile(k.CAFile)
			if err != nil {
				return nil, fmt.Errorf("kafka authorities: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("kafka authorities: %s holds no certificate", k.CAFile)
			}
		}
		dialer := &tls.Dialer{Config: config}
		opts = append(opts, kgo.Dialer(dialer.DialContext))
	}
	mechanism, err := k.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	if reg != nil {
		opts = append(opts, kgo.WithHooks(&clientMetrics{
			Metrics: kprom.NewMetrics("fencepost_kafka", kprom.Registerer(withoutBuffers{reg}), kprom.WithClientLabel()),
		}))
	}
	return opts, nil
}

func (k Kafka) mechanism() (sasl.Mechanism, error) {
	switch k.SASL {
	case "":
		return nil, nil
	case "plain":
		return plain.Auth{User: k.User, Pass: k.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: k.User, Pass: k.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: k.User, Pass: k.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("unknown SASL mechanism %q", k.SASL)
}

// Client is a client for administration: it fails soon rather than trying on, since its user waits.
func (k Kafka) Client(log *slog.Logger) (*kgo.Client, error) {
	opts, err := k.AdminOptions(log)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(opts...)
}

// AdminOptions are those of Client, for clients that do more than administer.
func (k Kafka) AdminOptions(log *slog.Logger) ([]kgo.Opt, error) {
	opts, err := k.Options("admin", nil, log)
	return append(opts, impatient()...), err
}

// impatient has requests fail soon.
func impatient() []kgo.Opt {
	return []kgo.Opt{
		// Looking up a topic answers from what was known this long ago: at the default of 5 s a topic that was just created
		// is unknown for 5 s.
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryTimeout(3 * time.Second), kgo.DialTimeout(3 * time.Second), kgo.RequestTimeoutOverhead(3 * time.Second),
	}
}

// clientMetrics counts all clients that share it as one. kprom registers its metrics anew for each client, which a
// second one could not do; and a role has several, one after the other and at once.
type clientMetrics struct {
	*kprom.Metrics
	once sync.Once
}

// OnNewClient registers once.
func (m *clientMetrics) OnNewClient(c *kgo.Client) { m.once.Do(func() { m.Metrics.OnNewClient(c) }) }

// OnClientClosed keeps the counters for the clients that follow.
func (m *clientMetrics) OnClientClosed(*kgo.Client) {}

// withoutBuffers leaves out the gauges that read one client, the first: they would speak of that one alone.
type withoutBuffers struct{ prometheus.Registerer }

// Register drops the gauges of buffered records and bytes.
func (r withoutBuffers) Register(c prometheus.Collector) error {
	if _, gauge := c.(prometheus.GaugeFunc); gauge {
		return nil
	}
	return r.Registerer.Register(c)
}

// MustRegister is Register for several.
func (r withoutBuffers) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err) // two roles of one name in one node, which is a defect of ours
		}
	}
}

// quiet turns the client's running commentary into debug logs: at info it reports every connection and rebalance step.
type quiet struct{ kgo.Logger }

// Level asks for less, unless debug is on.
func (q quiet) Level() kgo.LogLevel {
	if l := q.Logger.Level(); l >= kgo.LogLevelDebug {
		return l
	}
	return kgo.LogLevelWarn
}
