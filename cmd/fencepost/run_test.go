package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// process is a `fencepost run` of its own. Its log says where it listens.
type process struct {
	t          *testing.T
	cmd        *exec.Cmd
	log        *lockedBuffer
	api, admin string
	ended      chan struct{}
}

func startRun(t *testing.T, roles string, env ...string) *process {
	t.Helper()
	cmd := command("run", "--roles", roles, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json")
	cmd.Env = append(cmd.Env, env...)
	p := &process{t: t, cmd: cmd, log: &lockedBuffer{}, ended: make(chan struct{})}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", roles, p.log)
		}
	})
	type line struct{ Msg, API, Admin string }
	running := make(chan line, 1)
	go func() {
		scanner := bufio.NewScanner(io.TeeReader(stderr, p.log))
		for scanner.Scan() {
			var l line
			if json.Unmarshal(scanner.Bytes(), &l) == nil && l.Msg == "running" {
				running <- l
			}
		}
		_ = cmd.Wait()
		close(p.ended)
	}()
	select {
	case l := <-running:
		p.api, p.admin = "http://"+l.API, "http://"+l.Admin
	case <-p.ended:
		t.Fatalf("%s ended: %s", roles, p.log)
	case <-time.After(patience):
		t.Fatalf("%s is not running: %s", roles, p.log)
	}
	until(t, roles+" to be ready", func() bool {
		resp, err := http.Get(p.admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// TestI1_RolesInProcessesOfTheirOwn: the same path as in dev, with each role elsewhere, and a clean end of each.
func TestI1_RolesInProcessesOfTheirOwn(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	env := []string{"FENCEPOST_POSTGRES_URL=" + pgtest.URL(t), "FENCEPOST_KAFKA_BROKERS=" + cluster.ListenAddrs()[0]}
	output := func(args ...string) string {
		cmd := command(args...)
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	output("topics", "create", "--partitions", "4")
	var key struct{ Secret string }
	if err := json.Unmarshal([]byte(output("keys", "create", "--workspace", "acme", "-o", "json")), &key); err != nil {
		t.Fatal(err)
	}

	model := command("llm-sim", "--listen", "127.0.0.1:0")
	out, err := model.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = model.Process.Kill(); _ = model.Wait() }()
	origin, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	origin = strings.TrimSpace(origin)
	env = append(env, "FENCEPOST_LLM_BASE_URL="+origin)

	api := startRun(t, "api", env...)
	others := []*process{startRun(t, "dispatcher", env...), startRun(t, "worker", env...)}
	p := &devProcess{t: t, devReady: devReady{API: api.api, LLM: origin, APIKey: key.Secret}}
	r := p.send("c-1", "k-1", "Hello!")
	if r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	id := decode[taskJSON](t, r).ID
	if task := p.finished(id); task.Status != "completed" {
		t.Errorf("%+v", task)
	}
	if n := p.totals().Requests; n != 1 {
		t.Errorf("%d calls of the model", n)
	}
	if shown := output("tasks", "show", id); !strings.Contains(shown, "#1 accepted") || !strings.Contains(shown, "echo: Hello!") {
		t.Errorf("tasks show:\n%s", shown)
	}
	var detail struct {
		Workspace string
		Ledger    []struct{ Outcome string }
	}
	if err := json.Unmarshal([]byte(output("tasks", "show", id, "-o", "json")), &detail); err != nil || detail.Workspace != "acme" || len(detail.Ledger) != 1 {
		t.Errorf("tasks show -o json: %+v, %v", detail, err)
	}
	var places struct {
		Records []struct{ Partition, Offset int64 }
	}
	if err := json.Unmarshal([]byte(output("tasks", "show", id, "--records", "-o", "json")), &places); err != nil || len(places.Records) != 1 || places.Records[0].Offset != 0 {
		t.Errorf("tasks show --records: %+v, %v", places, err)
	}
	if listed := output("tasks", "list", "--status", "completed"); !strings.Contains(listed, id) {
		t.Errorf("tasks list:\n%s", listed)
	}
	cancel := command("tasks", "cancel", id)
	cancel.Env = append(cancel.Env, env...)
	if _ = cancel.Run(); cancel.ProcessState.ExitCode() != 3 {
		t.Errorf("cancelling a finished task: exit code %d", cancel.ProcessState.ExitCode())
	}
	for _, x := range append(others, api) {
		if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-x.ended:
		case <-time.After(patience):
			t.Fatal("does not end")
		}
		if code := x.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d after SIGTERM", code)
		}
	}
}
