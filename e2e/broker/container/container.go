package container

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	docker "github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"

	"github.com/fencepost/fencepost/e2e/broker"
)

//go:embed build.sh
var buildScript []byte

func init() { broker.RegisterContainer(open, usable) }

// usable says why a broker cannot be run in a container here.
func usable(ctx context.Context) error {
	client, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("no Docker engine: %w", err)
	}
	defer client.Close()
	if _, err := client.Ping(ctx, docker.PingOptions{}); err != nil {
		return fmt.Errorf("no Docker engine answers: %w", err)
	}
	if os.Getenv("FENCEPOST_TEST_KAFKA_IMAGE") != "" {
		return nil
	}
	if runtime.GOOS != "linux" {
		return errors.New("FENCEPOST_TEST_KAFKA_IMAGE is not set, and an image can be built on Linux only")
	}
	for _, tool := range []string{"docker", "jlink", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("FENCEPOST_TEST_KAFKA_IMAGE is not set, and building an image takes %s: %w", tool, err)
		}
	}
	return nil
}

// image names the image to run, building it when none is named. A build that is up to date takes no time.
func image(ctx context.Context) (string, error) {
	if name := os.Getenv("FENCEPOST_TEST_KAFKA_IMAGE"); name != "" {
		return name, nil
	}
	jars, err := broker.FetchJars(ctx)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "fencepost-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "build.sh")
	if err := os.WriteFile(script, buildScript, 0o755); err != nil {
		return "", err
	}
	const name = "localhost/fencepost-test-kafka:4.3.1" // localhost/ is never looked for elsewhere
	build := exec.CommandContext(ctx, "bash", script, jars, "", name)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the image: %w\n%s", err, out)
	}
	return name, nil
}

// server is a broker in a container.
type server struct {
	addr   string
	c      *kafka.KafkaContainer
	client *testcontainers.DockerClient
}

func open(ctx context.Context, config map[string]string) (broker.Server, error) {
	name, err := image(ctx)
	if err != nil {
		return nil, err
	}
	client, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s := &server{addr: "127.0.0.1:" + port, client: client}
	s.c, err = kafka.Run(ctx, name, testcontainers.WithEnv(environment(config)),
		testcontainers.WithHostConfigModifier(func(h *dockercontainer.HostConfig) {
			// Fixed: Docker would draw another port at each start, while the broker goes on advertising the first one.
			h.PortBindings = network.PortMap{network.MustParsePort("9093/tcp"): {
				{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: port},
			}}
		}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("container: %w", err), s.Close())
	}
	return s, nil
}

// environment writes settings the way Confluent's images read them.
func environment(config map[string]string) map[string]string {
	names := strings.NewReplacer(".", "_", "_", "__", "-", "___")
	env := make(map[string]string, len(config))
	for k, v := range maps.All(config) {
		env["KAFKA_"+strings.ToUpper(names.Replace(k))] = v
	}
	return env
}

func (s *server) Addrs() []string { return []string{s.addr} }

func (s *server) Start(ctx context.Context) error {
	_, err := s.client.ContainerStart(ctx, s.c.GetContainerID(), docker.ContainerStartOptions{})
	return err
}

// Stop signals the broker itself: the container's first process is a shell that does not pass a signal on.
func (s *server) Stop(ctx context.Context) error {
	code, out, err := s.c.Exec(ctx, []string{"sh", "-c", `kill -TERM "$(cat /run/kafka.pid)"`})
	if err != nil {
		return err
	}
	if code != 0 {
		text, _ := io.ReadAll(out)
		return fmt.Errorf("signal the broker: exit code %d: %s", code, text)
	}
	return s.waitEnd(ctx)
}

func (s *server) Kill(ctx context.Context) error {
	if _, err := s.client.ContainerKill(ctx, s.c.GetContainerID(), docker.ContainerKillOptions{Signal: "KILL"}); err != nil {
		return err
	}
	return s.waitEnd(ctx)
}

func (s *server) waitEnd(ctx context.Context) error {
	for {
		state, err := s.c.State(ctx)
		if err != nil {
			return err
		}
		if !state.Running {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the container does not end: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *server) Pause(ctx context.Context) error {
	_, err := s.client.ContainerPause(ctx, s.c.GetContainerID(), docker.ContainerPauseOptions{})
	return err
}

func (s *server) Resume(ctx context.Context) error {
	_, err := s.client.ContainerUnpause(ctx, s.c.GetContainerID(), docker.ContainerUnpauseOptions{})
	return err
}

func (s *server) Alive() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	state, err := s.c.State(ctx)
	return err == nil && state.Running
}

func (s *server) Log() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	logs, err := s.c.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer logs.Close()
	text, _ := io.ReadAll(logs)
	return string(text[max(0, len(text)-8<<10):])
}

// Close ends and removes the container. Nobody else does: where testcontainers' reaper cannot run, a leftover stays.
func (s *server) Close() error {
	var err error
	if s.c != nil && s.c.Container != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		// A paused container cannot be stopped; of one that runs the error is of no interest.
		_, _ = s.client.ContainerUnpause(ctx, s.c.GetContainerID(), docker.ContainerUnpauseOptions{})
		err = s.c.Terminate(ctx, testcontainers.StopTimeout(0))
	}
	return errors.Join(err, s.client.Close())
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
