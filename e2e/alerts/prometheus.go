package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/internal/child"
	"github.com/fencepost/fencepost/offsets/dashboard"
)

// Prometheus is a running server that ends with the test.
type Prometheus struct {
	URL string
	t   testing.TB
}

// StartPrometheus scrapes targets (host:port) with our rules, as change has made them, and as often as it may be: a scrape
// takes five seconds while Kafka does not answer.
func StartPrometheus(t testing.TB, targets []string, change func(name, content string) string) *Prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("Prometheus is not on this machine (%v); Debian's package is prometheus, and .ci/run installs it", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"rules.yml", "alerts.yml"} {
		content, err := fs.ReadFile(dashboard.Files(), "prometheus/"+name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), change(name, string(content)))
	}
	quoted := `"` + strings.Join(targets, `","`) + `"`
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(`global: {scrape_interval: 7s, scrape_timeout: 7s, evaluation_interval: 1s}
rule_files: [rules.yml, alerts.yml]
scrape_configs: [{job_name: fencepost, static_configs: [{targets: [%s]}]}]
`, quoted))
	address := freeAddress(t)
	log := filepath.Join(dir, "log")
	server, err := child.Start(log, nil, path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Signal(syscall.SIGKILL)
		<-server.Done()
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", child.Tail(log, 4<<10))
		}
	})
	p := &Prometheus{URL: "http://" + address, t: t}
	until(t, "Prometheus is ready", func() bool { _, err := p.get("/-/ready", nil); return err == nil })
	return p
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// until waits for something that a few busy cores bring about in their time.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it has not come to be: %s", what)
		}
	}
}

func (p *Prometheus) get(path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

func (p *Prometheus) data(path string, query url.Values, into any) error {
	body, err := p.get("/api/v1/"+path, query)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Data any }{into})
}

// Parses says why an expression is none.
func (p *Prometheus) Parses(expression string) error {
	var any json.RawMessage
	return p.data("query", url.Values{"query": {expression}}, &any)
}

// Series are the label sets of the series that a selector finds.
func (p *Prometheus) Series(selector string) []map[string]string {
	p.t.Helper()
	var out []map[string]string
	if err := p.data("series", url.Values{"match[]": {selector}}, &out); err != nil {
		p.t.Fatalf("%s: %v", selector, err)
	}
	return out
}

// Alert is an alert that is pending or firing.
type Alert struct {
	Labels map[string]string
	State  string
}

// Firing are the alerts that fire, by name.
func (p *Prometheus) Firing() map[string]Alert {
	p.t.Helper()
	var out struct{ Alerts []Alert }
	if err := p.data("alerts", nil, &out); err != nil {
		p.t.Fatal(err)
	}
	firing := make(map[string]Alert)
	for _, a := range out.Alerts {
		if a.State == "firing" {
			firing[a.Labels["alertname"]] = a
		}
	}
	return firing
}
