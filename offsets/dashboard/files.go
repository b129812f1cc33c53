package dashboard

import (
	"embed"
	"io/fs"
)

//go:embed grafana prometheus
var files embed.FS

// Files are Grafana's dashboards with their provisioning, and Prometheus' configuration, rules and alerts with the tests of
// the rules: the folders grafana and prometheus.
func Files() fs.FS { return files }
