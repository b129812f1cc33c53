package broker

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

//go:embed pom.xml
var pom []byte

//go:embed log4j2.properties
var log4j []byte

// jars is a folder of the user's cache, filled once:
//
//	libs/       Kafka's jars
//	formatted/  what formatting a data directory leaves, so that a broker need not start a JVM for it
//	log4j2.properties
type jars struct{ dir string }

func (j jars) libs() string      { return filepath.Join(j.dir, "libs") }
func (j jars) classpath() string { return filepath.Join(j.dir, "libs", "*") }

// version names the cache folder: change it whenever pom.xml or what is kept there changes.
const version = "kafka-4.3.1-1"

// FetchJars returns the folder with Kafka's jars, fetching them with Maven when they are not in the cache yet.
func FetchJars(ctx context.Context) (string, error) {
	j, err := fetch(ctx)
	return j.libs(), err
}

func fetch(ctx context.Context) (jars, error) {
	dir, err := cached(version, func(part string) error { return jars{part}.fill(ctx) })
	if err != nil {
		return jars{}, fmt.Errorf("fetch Kafka's jars: %w", err)
	}
	return jars{dir}, nil
}

// cached returns a folder of the cache, which fill fills if it is not there yet.
func cached(name string, fill func(dir string) error) (string, error) {
	cache := os.Getenv("FENCEPOST_TEST_KAFKA_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = os.TempDir() // no home
		}
		cache = filepath.Join(user, "fencepost")
	}
	dir, err := filepath.Abs(filepath.Join(cache, name))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// go test runs packages side by side: one fetches, the others wait.
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// Filled beside its place and renamed, so that what is there is complete.
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	if err := fill(part); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

func (j jars) fill(ctx context.Context) error {
	if err := os.MkdirAll(j.libs(), 0o755); err != nil {
		return err
	}
	write := func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(j.dir, name), content, 0o644)
	}
	if err := errors.Join(write("log4j2.properties", log4j), copyJars(ctx, j.dir, pom)); err != nil {
		return err
	}
	// The ports are of no consequence: with the voters named in the settings, what is written does not hold them.
	conf := properties(map[string]string{"log.dirs": filepath.Join(j.dir, "formatted")}, 1, 2)
	if err := write("format.properties", []byte(conf)); err != nil {
		return err
	}
	format := exec.CommandContext(ctx, java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", j.classpath(),
		"kafka.tools.StorageTool", "format", "-t", clusterID(), "-c", filepath.Join(j.dir, "format.properties"))
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format a data directory (Java 17 or later is needed): %w\n%s", err, out)
	}
	return nil
}

// copyJars has Maven copy what a project needs into dir/libs.
func copyJars(ctx context.Context, dir string, pom []byte) error {
	project := filepath.Join(dir, "pom.xml")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(project, pom, 0o644)); err != nil {
		return err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-B", "-q", "-f", project,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+jars{dir}.libs())
	if out, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w\n%s", err, out)
	}
	return nil
}

// format makes dir a formatted, empty data directory of a new cluster.
func (j jars) format(dir string) error {
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(j.dir, "formatted"))); err != nil {
		return err
	}
	path := filepath.Join(dir, "meta.properties")
	meta, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(meta)) {
		if strings.HasPrefix(line, "cluster.id=") {
			// A client that meets another broker on a port it knows must see that the cluster is another one.
			line = "cluster.id=" + clusterID() + "\n"
		}
		lines = append(lines, line)
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644)
}

// clusterID draws an id as StorageTool's random-uuid does. Not with - at its start, which would be read as an option.
func clusterID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

func java() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", "java")
	}
	return "java"
}

// lock takes a file's lock, waiting for it, and returns how to let it go. It goes with the process, too.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { f.Close() }, nil
}
