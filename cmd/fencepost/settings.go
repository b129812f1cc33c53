package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/tasks/httpapi"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// kafkaSettings are how to reach the brokers.
type kafkaSettings struct {
	brokers      []string
	topic, group string
	tls          bool
	caFile       string
	sasl         *cli.Choice
	user         string
	passwordFile string
}

func (k *kafkaSettings) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&k.brokers, "kafka-brokers", nil, "brokers to begin with, `host:port,...`")
	f.StringVar(&k.topic, "kafka-topic", "reply-tasks", "topic of the records that point at tasks; dead letters go to TOPIC.dlq")
	f.StringVar(&k.group, "kafka-group", "fencepost", "consumer group of the workers")
	f.BoolVar(&k.tls, "kafka-tls", false, "speak TLS to the brokers")
	f.StringVar(&k.caFile, "kafka-tls-ca-file", "", "PEM `file` with the authorities of the brokers, instead of the system's")
	k.sasl = cli.NewChoice("none", "plain", "scram-sha-256", "scram-sha-512")
	f.Var(k.sasl, "kafka-sasl", "how to authenticate at the brokers")
	f.StringVar(&k.user, "kafka-sasl-user", "", "user for --kafka-sasl")
	f.StringVar(&k.passwordFile, "kafka-sasl-password-file", "", "`file` with the password; or set FENCEPOST_KAFKA_SASL_PASSWORD")
}

// read checks the settings and reads the password.
func (k *kafkaSettings) read(a *app) (node.Kafka, error) {
	out := node.Kafka{Brokers: k.brokers, Topic: k.topic, Group: k.group, TLS: k.tls, CAFile: k.caFile, User: k.user}
	if len(k.brokers) == 0 {
		return out, cli.Usage("for example --kafka-brokers localhost:9092, or try everything at once: fencepost dev",
			"--kafka-brokers (or %s) is missing", cli.Env("kafka-brokers"))
	}
	for _, b := range k.brokers {
		if strings.TrimSpace(b) == "" || strings.Contains(b, "://") {
			return out, cli.Usage("for example localhost:9092", "--kafka-brokers: %q is not host:port", b)
		}
	}
	if k.topic == "" || k.group == "" {
		return out, cli.Usage("", "--kafka-topic and --kafka-group must not be empty")
	}
	if k.sasl.String() == "none" {
		return out, nil
	}
	out.SASL = k.sasl.String()
	password, _, err := cli.Secret("kafka-sasl-password", k.passwordFile, a.LookupEnv)
	if err != nil {
		return out, err
	}
	if k.user == "" || password == "" {
		return out, cli.Usage("set --kafka-sasl-user, and --kafka-sasl-password-file or "+cli.Env("kafka-sasl-password"),
			"--kafka-sasl %s needs a user and a password", k.sasl)
	}
	out.Password = password
	return out, nil
}

// postgresSettings are where the database is.
type postgresSettings struct{ url string }

func (p *postgresSettings) flags(f *pflag.FlagSet) {
	f.StringVar(&p.url, "postgres-url", "", "`postgres://user@host/database`; one with a password belongs into FENCEPOST_POSTGRES_URL")
	cli.MaskURL(f, "postgres-url")
}

func (p *postgresSettings) check() error {
	if p.url == "" {
		return cli.Usage("for example postgres://fencepost@localhost:5432/fencepost", "--postgres-url (or %s) is missing", cli.Env("postgres-url"))
	}
	return nil
}

// open connects for a verb that works on the store.
func (p *postgresSettings) open(ctx context.Context) (*postgres.Store, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, postgres.Config{URL: p.url, MaxConns: 2, ApplicationName: "fencepost-cli"})
	if err != nil {
		return nil, cli.Fail("check --postgres-url (or FENCEPOST_POSTGRES_URL) and that Postgres runs there", "%w", err)
	}
	return store, nil
}

// nodeSettings are how the roles work.
type nodeSettings struct {
	listen, adminListen   string
	offsets, order        *cli.Choice
	protocol              *cli.Choice
	instanceID            string
	maxInFlight           int
	maxPerWorkspace       int
	lease, callTimeout    time.Duration
	drain, session, start time.Duration
	stop                  time.Duration
	historyTurns          int
	historyTokens         int
	liveTokens            bool
	maxAttempts           int
	maxUnfinished         int
	workspaceUnfinished   int
	workspacePerMinute    int
	deadline, retention   time.Duration
	promptTemplates       string
	requireKey            bool
	otelEndpoint          string
	sweep                 sweepSettings
}

func (n *nodeSettings) flags(f *pflag.FlagSet) {
	f.StringVar(&n.listen, "listen", "127.0.0.1:8080", "`address` of the API")
	f.StringVar(&n.adminListen, "admin-listen", "127.0.0.1:8081", "`address` of the admin listener, which has no authentication")
	n.offsets = cli.NewChoice("kafka", "postgres")
	f.Var(n.offsets, "offsets", "where positions are kept: in the group's commits, or with the replies, followed by the commits")
	n.order = cli.NewChoice(string(consumer.OrderConversation), string(consumer.OrderPartition), string(consumer.OrderNone))
	f.Var(n.order, "order", "which records wait for one another")
	n.protocol = cli.NewChoice(string(consumer.ProtocolClassic), string(consumer.ProtocolConsumer))
	f.Var(n.protocol, "group-protocol", "who assigns partitions: a member, or the broker (KIP-848, Kafka 4.0 and later)")
	f.StringVar(&n.instanceID, "instance-id", "", "static membership: a `name` that is this worker's alone and the same after a restart; classic only")
	f.IntVar(&n.maxInFlight, "max-in-flight", 256, "calls open at once in a worker")
	f.IntVar(&n.maxPerWorkspace, "workspace-max-in-flight", 0, "the same for each workspace; 0: no bound")
	f.DurationVar(&n.lease, "lease", 20*time.Second, "how long a worker's right to a task lives without renewal")
	f.DurationVar(&n.callTimeout, "call-timeout", 5*time.Minute, "longest provider call")
	f.DurationVar(&n.drain, "drain-timeout", 25*time.Second, "how long a stop or a moving partition waits for started work")
	f.DurationVar(&n.stop, "stop-timeout", 25*time.Second, "how long a stop lets calls go on altogether; what needs longer is called again elsewhere")
	f.DurationVar(&n.session, "session-timeout", 15*time.Second, "how long the group waits for a worker that says nothing; classic only, KIP-848 groups have the broker's setting")
	f.DurationVar(&n.start, "start-timeout", 30*time.Second, "how long a start waits for Postgres and for Kafka")
	f.IntVar(&n.historyTurns, "history-turns", 20, "earlier messages of the conversation that are sent along; 0: none")
	f.IntVar(&n.historyTokens, "history-tokens", 8000, "tokens of them, by an estimate; the oldest are left out first")
	f.BoolVar(&n.liveTokens, "live-tokens", true, "keep the text of running calls where those who watch can read it")
	f.IntVar(&n.maxAttempts, "max-attempts", 5, "provider calls for a task, unless the message says otherwise")
	f.IntVar(&n.maxUnfinished, "max-unfinished", 1_000_000, "tasks that are not finished beyond which new messages are refused with 503")
	f.IntVar(&n.workspaceUnfinished, "workspace-max-unfinished", 0, "the same for each workspace, with 429; 0: no bound")
	f.IntVar(&n.workspacePerMinute, "workspace-submissions-per-minute", 0, "messages that each workspace may submit in a minute through this process; 0: no bound")
	f.DurationVar(&n.deadline, "deadline", time.Hour, "age at which a task is given up, unless the message says otherwise")
	f.DurationVar(&n.retention, "retention", 24*time.Hour, "how long idempotency keys are remembered, at least 24h and longer than --deadline")
	f.BoolVar(&n.requireKey, "require-key", true, "refuse chat completions without an Idempotency-Key; false: one is made for each, and returned")
	f.StringVar(&n.promptTemplates, "prompt-templates", "", "YAML `file` of the prompt templates that messages may name; read by the API")
	f.StringVar(&n.otelEndpoint, "otel-endpoint", "", "`URL` of an OpenTelemetry collector to send traces to, like http://localhost:4318; the standard OTEL_EXPORTER_OTLP_... variables do, too")
	n.sweep.flags(f)
}

// minRetention is what a client may count on when it repeats a request on the next day.
const minRetention = 24 * time.Hour

func (n *nodeSettings) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"lease", n.lease, time.Second}, {"call-timeout", n.callTimeout, time.Second}, {"drain-timeout", n.drain, 0},
		{"stop-timeout", n.stop, 0},
		{"session-timeout", n.session, time.Second}, {"start-timeout", n.start, 0}, {"deadline", n.deadline, time.Second},
		{"retention", n.retention, minRetention},
	} {
		if d.value < d.least || d.value < 0 {
			return cli.Usage("", "--%s: %s is too short, the least is %s", d.name, d.value, d.least)
		}
	}
	if err := n.sweep.check(); err != nil {
		return err
	}
	if err := telemetry.CheckEndpoint(n.otelEndpoint); err != nil && n.otelEndpoint != "" {
		return cli.Usage("", "--otel-endpoint: %v", err)
	}
	if n.retention <= n.deadline {
		return cli.Usage("a repeat that comes after its key is forgotten is new work, and is paid for again",
			"--retention: %s is not longer than --deadline %s, within which a task is retried", n.retention, n.deadline)
	}
	if n.maxInFlight < 1 || n.maxInFlight > 100_000 {
		return cli.Usage("", "--max-in-flight: %d is not within 1 and 100000", n.maxInFlight)
	}
	if n.maxPerWorkspace < 0 {
		return cli.Usage("0 is no bound", "--workspace-max-in-flight: %d is below 0", n.maxPerWorkspace)
	}
	if n.instanceID != "" && n.protocol.String() != string(consumer.ProtocolClassic) {
		return cli.Usage("", "--instance-id: needs --group-protocol classic, since the client cannot leave a KIP-848 group with one")
	}
	if n.historyTurns < 0 || n.historyTurns > 1000 {
		return cli.Usage("", "--history-turns: %d is not within 0 and 1000", n.historyTurns)
	}
	if n.historyTokens < 1 || n.historyTokens > 2_000_000 {
		return cli.Usage("to send nothing along: --history-turns 0", "--history-tokens: %d is not within 1 and 2000000", n.historyTokens)
	}
	if n.workspaceUnfinished < 0 || n.workspacePerMinute < 0 {
		return cli.Usage("0 is no bound", "--workspace-max-unfinished and --workspace-submissions-per-minute: %d and %d must not be below 0",
			n.workspaceUnfinished, n.workspacePerMinute)
	}
	if n.maxUnfinished < 1 {
		return cli.Usage("", "--max-unfinished: %d is below 1", n.maxUnfinished)
	}
	if n.maxAttempts < 1 || n.maxAttempts > 20 {
		return cli.Usage("", "--max-attempts: %d is not within 1 and 20", n.maxAttempts)
	}
	return nil
}

// config is the part of a node's configuration that comes from here.
func (n *nodeSettings) config(model string) node.Config {
	turns := n.historyTurns
	if turns == 0 {
		turns = -1 // to the worker 0 is its default
	}
	return node.Config{
		Listen: n.listen, AdminListen: n.adminListen,
		Consumer: consumer.Config{
			Protocol: consumer.Protocol(n.protocol.String()), InstanceID: n.instanceID,
			Order: consumer.Order(n.order.String()), MaxInFlight: n.maxInFlight, MaxInFlightPerWorkspace: n.maxPerWorkspace, Lease: n.lease, CallTimeout: n.callTimeout,
			HistoryTurns: turns, HistoryTokens: n.historyTokens,
			DrainTimeout: n.drain, StopTimeout: n.stop, SessionTimeout: n.session, RebalanceTimeout: max(time.Minute, 2*n.drain),
		},
		Defaults: httpapi.Defaults{Model: model, MaxAttempts: n.maxAttempts, Deadline: n.deadline, Retention: n.retention},
		Limits: httpapi.Limits{
			MaxUnfinished: n.maxUnfinished, WorkspaceMaxUnfinished: n.workspaceUnfinished, WorkspaceSubmissionsPerMinute: n.workspacePerMinute,
		},
		TaskRetention:     n.sweep.taskRetention,
		LiveTokens:        n.liveTokens,
		KeyOptional:       !n.requireKey,
		OffsetsInPostgres: n.offsets.String() == "postgres",
		StartTimeout:      n.start, DrainTimeout: n.drain,
		Version: version(),
	}
}

// settingsFor registers groups of settings on a command.
func settingsFor(cmd *cobra.Command, groups ...func(*pflag.FlagSet)) {
	for _, g := range groups {
		cli.Settings(cmd.Flags(), g)
	}
}

// explain turns what node says into an error with exit code and hint.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var p *node.Problem
	if !errors.As(err, &p) {
		return err
	}
	if p.Kind == node.ErrNotReady {
		return cli.Refuse(p.Hint, "%w", err)
	}
	return cli.Fail(p.Hint, "%w", err)
}
