package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const folder = "../../offsets/dashboard"

// TestPromtool: the rules and the configuration are accepted, and their own tests pass.
func TestPromtool(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatalf("promtool is not on this machine (%v); Debian's package is prometheus, and .ci/run installs it", err)
	}
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"check", "rules", "rules.yml", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = filepath.Join(folder, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestAlertsHaveRunbooks: each alert has a severity, a summary, a description and a heading of its own in the runbook, and
// tests; the runbook has no heading for an alert that is none.
func TestAlertsHaveRunbooks(t *testing.T) {
	runbook, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join(folder, "prometheus", "alerts_test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(string(runbook), -1) {
		anchors[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	rules, err := Rules("alerts.yml")
	if err != nil || len(rules) < 15 {
		t.Fatal(len(rules), err)
	}
	for _, r := range rules {
		if !strings.HasPrefix(r.Alert, "Fencepost") || r.For == "" {
			t.Errorf("%q for %q", r.Alert, r.For)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s does not say what it is", r.Alert)
		}
		page, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		if !strings.HasSuffix(page, "/offsets/dashboard/README.md") || !anchors[anchor] {
			t.Errorf("%s: the runbook has no %q", r.Alert, anchor)
		}
		delete(anchors, anchor)
		if !strings.Contains(string(runbook), "`"+r.Alert+"`") {
			t.Errorf("the runbook does not name %s", r.Alert)
		}
		for _, want := range []string{"alertname: " + r.Alert + ", exp_alerts: []", "name: " + r.Alert + "\n"} {
			if !strings.Contains(string(tests), want) {
				t.Errorf("the tests of the rules have no %q", want)
			}
		}
	}
	for anchor := range anchors {
		t.Errorf("the runbook has a heading %q, and no alert leads there", anchor)
	}
}

// TestDashboards: stable and unique names, every panel described, with a unit and the data source that is chosen.
func TestDashboards(t *testing.T) {
	dashboards, err := Dashboards()
	if err != nil || len(dashboards) != 2 {
		t.Fatal(len(dashboards), err)
	}
	for name, d := range dashboards {
		if d.UID != strings.TrimSuffix(name, ".json") || d.Title == "" || d.Description == "" || d.SchemaVersion < 30 {
			t.Errorf("%s: uid %q, title %q, schema %d", name, d.UID, d.Title, d.SchemaVersion)
		}
		if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: the data source cannot be chosen", name)
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" && v.Datasource.UID != "${datasource}" {
				t.Errorf("%s: the variable %s asks %q", name, v.Name, v.Datasource.UID)
			}
		}
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels with the id %d", name, p.ID)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d, %q, is not complete", name, p.ID, p.Title)
			}
			for _, target := range p.Targets {
				if target.Datasource.UID != "${datasource}" {
					t.Errorf("%s: %q asks %q", name, p.Title, target.Datasource.UID)
				}
			}
		}
	}
}

// TestSelectors: what an expression asks for is found, also behind != and in groups of words.
func TestSelectors(t *testing.T) {
	e := Expression{Text: `sum by (outcome) (rate(fencepost_a_total{outcome!~"x|y"}[5m])) / on (group) a_b:fencepost_c:max{status="STOP"} > 0`}
	want := `fencepost_a_total{outcome=~"x"} fencepost_a_total{outcome=~"y"} fencepost_a_total{outcome!=""} a_b:fencepost_c:max{status="STOP"}`
	if got := strings.Join(e.Selectors(), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	labels, metrics := e.Grouped()
	if strings.Join(labels, " ") != "group outcome" || strings.Join(metrics, " ") != "fencepost_a_total a_b:fencepost_c:max" {
		t.Errorf("%q of %q", labels, metrics)
	}
}
