package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fencepost/fencepost/e2e/internal/child"
)

// jvm is a broker run from the jars with the machine's Java.
type jvm struct {
	jars jars
	dir  string // server.properties, log, data
	free func() // lets go of dir's lock
	port int
	proc *child.Child // nil before the first start
}

func openJVM(ctx context.Context, config map[string]string) (Server, error) {
	j, err := fetch(ctx)
	if err != nil {
		return nil, err
	}
	dir, free, err := newDir()
	if err != nil {
		return nil, err
	}
	b := &jvm{jars: j, dir: dir, free: free}
	if err := b.setUp(config); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *jvm) setUp(config map[string]string) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	b.port = ports[0]
	data := filepath.Join(b.dir, "data")
	if err := b.jars.format(data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	config = maps.Clone(config)
	config["log.dirs"] = data
	return os.WriteFile(b.file("server.properties"), []byte(properties(config, ports[0], ports[1])), 0o644)
}

// properties writes the settings of a single node that is broker and controller.
func properties(config map[string]string, port, controllerPort int) string {
	all := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       fmt.Sprintf("1@127.0.0.1:%d", controllerPort),
		"listeners":                      fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port, controllerPort),
		"advertised.listeners":           fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", port),
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
	}
	maps.Copy(all, config)
	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&s, "%s=%s\n", k, all[k])
	}
	return s.String()
}

func (b *jvm) file(name string) string { return filepath.Join(b.dir, name) }

func (b *jvm) Addrs() []string { return []string{fmt.Sprintf("127.0.0.1:%d", b.port)} }

func (b *jvm) Start(context.Context) error {
	if b.Alive() {
		return errors.New("the broker is running")
	}
	// One compiler tier and the serial collector: a broker that lives for seconds on a shared machine never earns back more.
	p, err := child.Start(b.file("broker.log"), nil, java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j2.configurationFile="+filepath.Join(b.jars.dir, "log4j2.properties"),
		"-cp", b.jars.classpath(), "kafka.Kafka", b.file("server.properties"))
	if err != nil {
		return err
	}
	b.proc = p
	return nil
}

func (b *jvm) Alive() bool { return b.proc != nil && b.proc.Alive() }

func (b *jvm) Stop(ctx context.Context) error {
	if err := b.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-b.proc.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it does not end: %w", context.Cause(ctx))
	}
}

func (b *jvm) Kill(context.Context) error {
	if err := b.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-b.proc.Done()
	return nil
}

func (b *jvm) Pause(context.Context) error  { return b.signal(syscall.SIGSTOP) }
func (b *jvm) Resume(context.Context) error { return b.signal(syscall.SIGCONT) }

func (b *jvm) signal(s syscall.Signal) error {
	if !b.Alive() {
		return errors.New("the broker is not running")
	}
	return b.proc.Signal(s)
}

func (b *jvm) Log() string { return child.Tail(b.file("broker.log"), 8<<10) }

func (b *jvm) Close() error {
	var err error
	if b.Alive() {
		err = b.Kill(context.Background())
	}
	err = errors.Join(err, os.RemoveAll(b.dir))
	b.free()
	return err
}

// freePorts finds n ports that nobody listens on now.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // only at the end, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
