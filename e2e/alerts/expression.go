package alerts

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fencepost/fencepost/offsets/dashboard"
)

// Expression is one expression of a dashboard or rule.
type Expression struct {
	Where string
	Text  string // with Grafana's variables replaced by what matches everything
}

// Rule is a recording rule or an alert.
type Rule struct {
	Record, Alert, Expr, For string
	Labels                   map[string]string
	Annotations              map[string]string
}

// Rules reads a file of rules.
func Rules(name string) ([]Rule, error) {
	content, err := fs.ReadFile(dashboard.Files(), "prometheus/"+name)
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct{ Rules []Rule }
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []Rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out, nil
}

// Panel is what is judged of a panel of a dashboard.
type Panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  struct{ Type, UID string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		Expr       string
		Datasource struct{ UID string }
	}
}

// Dashboard is what is judged of a dashboard.
type Dashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Panels                  []Panel
	Templating              struct {
		List []struct {
			Name, Type string
			Datasource struct{ UID string }
		}
	}
}

// Dashboards reads all of them, by file.
func Dashboards() (map[string]Dashboard, error) {
	out := make(map[string]Dashboard)
	names, err := fs.Glob(dashboard.Files(), "grafana/dashboards/*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := fs.ReadFile(dashboard.Files(), name)
		if err != nil {
			return nil, err
		}
		var d Dashboard
		if err := json.Unmarshal(content, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[path.Base(name)] = d
	}
	return out, nil
}

var variable = regexp.MustCompile(`\$\{?(group|topic)\}?`)

// Expressions are those of all dashboards, rules and alerts.
func Expressions() ([]Expression, error) {
	var out []Expression
	for _, name := range []string{"rules.yml", "alerts.yml"} {
		rules, err := Rules(name)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			out = append(out, Expression{name + ": " + r.Record + r.Alert, r.Expr})
		}
	}
	dashboards, err := Dashboards()
	if err != nil {
		return nil, err
	}
	for name, d := range dashboards {
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				out = append(out, Expression{name + ": " + p.Title, variable.ReplaceAllString(t.Expr, ".*")})
			}
		}
	}
	slices.SortFunc(out, func(a, b Expression) int { return strings.Compare(a.Where+a.Text, b.Where+b.Text) })
	return out, nil
}

var (
	selector = regexp.MustCompile(`\b((?:[a-z_]+:)*fencepost[a-z0-9_]*(?::[a-z0-9_]+)*|up)(\{[^}]*\})?`)
	grouping = regexp.MustCompile(`\b(?:by|on) ?\(([^)]*)\)`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
)

// Selectors are the series that an expression asks for, each to be given to /api/v1/series. What is excluded (!=, !~) must
// be there for the rest to mean something, so that it is asked for, too.
func (e Expression) Selectors() []string {
	var out []string
	for _, m := range selector.FindAllStringSubmatch(e.Text, -1) {
		matchers := matcher.FindAllStringSubmatch(m[2], -1)
		all := []string{}
		for _, x := range matchers {
			op := map[string]string{"=": "=", "=~": "=~", "!=": "=", "!~": "=~"}[x[2]]
			if op != x[2] || op == "=~" {
				for _, word := range strings.Split(x[3], "|") {
					// One by one: a misspelt word among others would never be missed.
					out = append(out, fmt.Sprintf(`%s{%s=~"%s"}`, m[1], x[1], word))
				}
			}
			if op == x[2] {
				all = append(all, x[0])
			} else {
				all = append(all, x[1]+`!=""`)
			}
		}
		out = append(out, fmt.Sprintf(`%s{%s}`, m[1], strings.Join(all, ",")))
	}
	return out
}

// Grouped are the labels that an expression groups by, with the metrics one of which must have it.
func (e Expression) Grouped() (labels, metrics []string) {
	for _, m := range grouping.FindAllStringSubmatch(e.Text, -1) {
		for _, label := range strings.Split(m[1], ",") {
			labels = append(labels, strings.TrimSpace(label))
		}
	}
	for _, m := range selector.FindAllStringSubmatch(e.Text, -1) {
		metrics = append(metrics, m[1])
	}
	slices.Sort(labels)
	return slices.Compact(labels), metrics
}
