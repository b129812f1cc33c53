// Package alerts holds Grafana's dashboards and Prometheus' rules and alerts (offsets/dashboard) against a running system.
//
// A real Prometheus (Debian's package prometheus; .ci/run installs it) scrapes real processes. Every metric and label of
// every expression must be there after a run in which something of everything has happened, and four faults must raise
// the alert that names them: no worker, a head that blocks, an outbox that stands still, an open breaker. promtool checks
// the rules and runs their tests: a healthy hour, and each fault by itself.
package alerts
