package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// service is what is judged of a service of compose.yaml.
type service struct {
	Image       string
	Command     []string
	Environment map[string]string
	Ports       []string
	HealthCheck *struct{ Test []string }              `yaml:"healthcheck"`
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Volumes     []string
}

type compose struct {
	Services map[string]service
	Volumes  map[string]any
}

func readCompose(t *testing.T) compose {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestComposeUsesWordsThatTheProgramKnows: every verb, flag and FENCEPOST_ variable in compose.yaml exists.
func TestComposeUsesWordsThatTheProgramKnows(t *testing.T) {
	program := filepath.Join(t.TempDir(), "fencepost")
	if out, err := exec.Command("go", "build", "-o", program, module+"cmd/fencepost").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	help := func(words ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, append(words, "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("fencepost %s --help: %v\n%s", strings.Join(words, " "), err, out)
		}
		return string(out)
	}
	run := help("run")
	judged := 0
	for name, s := range readCompose(t).Services {
		if !strings.HasPrefix(s.Image, "fencepost:") {
			continue
		}
		first := slices.IndexFunc(s.Command, func(w string) bool { return strings.HasPrefix(w, "-") })
		if first < 0 {
			first = len(s.Command)
		}
		verb := s.Command[:first]
		text := help(verb...)
		if usage := "fencepost " + strings.Join(verb, " ") + " [flags]"; !strings.Contains(text, usage) {
			t.Errorf("%s: %q is not a verb", name, strings.Join(verb, " "))
		}
		for _, word := range s.Command[first:] {
			if strings.HasPrefix(word, "--") && !hasFlag(text, word) {
				t.Errorf("%s: %s has no flag %s", name, strings.Join(verb, " "), word)
			}
			judged++
		}
		for variable := range s.Environment {
			setting, ours := strings.CutPrefix(variable, "FENCEPOST_")
			if flag := "--" + strings.ToLower(strings.ReplaceAll(setting, "_", "-")); ours && !hasFlag(run, flag) {
				t.Errorf("%s: %s is no setting", name, variable)
			}
			judged++
		}
	}
	if judged < 20 {
		t.Errorf("only %d words were judged", judged)
	}
}

func hasFlag(help, flag string) bool {
	return slices.Contains(strings.Fields(help), flag)
}

// TestComposeWaitsForWhatItNeeds: what runs on has a health check, every dependency names a state that its service can
// reach, and nothing is reachable from another machine.
func TestComposeWaitsForWhatItNeeds(t *testing.T) {
	c := readCompose(t)
	for _, name := range []string{"kafka", "postgres", "migrate", "topics", "llm-sim", "api", "dispatcher", "worker-1", "worker-2", "prometheus", "grafana"} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("there is no service %s", name)
		}
	}
	ends := map[string]bool{} // services that others wait for until they have ended
	for _, s := range c.Services {
		for on, d := range s.DependsOn {
			ends[on] = ends[on] || d.Condition == "service_completed_successfully"
		}
	}
	for name, s := range c.Services {
		if healthy := s.HealthCheck != nil && len(s.HealthCheck.Test) > 1; healthy == ends[name] {
			t.Errorf("%s: health check %v, ends by itself %v", name, healthy, ends[name])
		}
		for on, d := range s.DependsOn {
			want := map[bool]string{true: "service_completed_successfully", false: "service_healthy"}[ends[on]]
			if _, ok := c.Services[on]; !ok || d.Condition != want {
				t.Errorf("%s depends on %s being %s", name, on, d.Condition)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s on every address", name, port)
			}
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(volume, "./") {
				if _, err := os.Stat(filepath.Join(root, volume)); err != nil || !strings.HasSuffix(v, ":ro") {
					t.Errorf("%s mounts %s: %v", name, v, err)
				}
			} else if !slices.Contains(keys(c.Volumes), volume) {
				t.Errorf("%s uses the volume %s, which is not declared", name, volume)
			}
		}
	}
	scraped, err := os.ReadFile(filepath.Join(root, "offsets", "dashboard", "prometheus", "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range c.Services {
		if len(s.Command) > 0 && s.Command[0] == "run" && !strings.Contains(string(scraped), fmt.Sprintf("%q", name+":8081")) {
			t.Errorf("Prometheus does not scrape %s", name)
		}
	}
}

func keys(m map[string]any) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
