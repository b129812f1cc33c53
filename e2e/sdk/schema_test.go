package sdk

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// Whatever is asked by the document, or against it, gets an answer that the document has, and never a 5xx.
func TestSchemathesis(t *testing.T) {
	program := installed(t, "venv/bin/schemathesis")
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	d := startDev(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--config-file", filepath.Join(here, "schemathesis.toml"), "run", d.API+"/openapi.json",
		"--checks", "all", "--max-time", "60", "--max-examples", "30",
		"--generation-deterministic", "--continue-on-failure", "--request-timeout", "70", "--no-color")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+here, "PYTHONDONTWRITEBYTECODE=1", "SCHEMATHESIS_HOOKS=schemathesis_hooks",
		"OPENAI_API_KEY="+d.Key)
	cmd.Dir = t.TempDir() // it keeps what it has found in the folder it runs in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if tested := regexp.MustCompile(`Tested: (\d+)`).FindSubmatch(out); tested == nil || string(tested[1]) == "0" {
		t.Errorf("no operation was tested:\n%s", out)
	}
	for _, line := range regexp.MustCompile(`(?m)^.*(Selected|Tested|generated|covered).*$`).FindAll(out, -1) {
		t.Logf("%s", bytes.TrimSpace(line))
	}
}
