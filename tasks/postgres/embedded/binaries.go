package embedded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloaded is the version that is fetched when the machine has no Postgres.
const downloaded = embeddedpostgres.V18

// binaries is a folder with initdb and postgres of one major version.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(name string) string { return filepath.Join(b.dir, name) }

// installed lists what the machine has, newest first.
func installed(ctx context.Context) []binaries {
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		// A link into a bin folder is followed: Debian and Homebrew link single programs into PATH, never all of them.
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	// Where distributions and installers keep versions side by side.
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/lib/postgresql*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
		"/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	if out, err := command(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	var all []binaries
	for _, dir := range dirs {
		if slices.ContainsFunc(all, func(b binaries) bool { return b.dir == dir }) {
			continue
		}
		if b, err := inspect(ctx, dir); err == nil {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	return all
}

// inspect asks the programs of a folder what they are.
func inspect(ctx context.Context, dir string) (binaries, error) {
	b := binaries{dir: dir}
	if _, err := os.Stat(b.path("initdb")); err != nil {
		return b, err
	}
	out, err := command(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return b, fmt.Errorf("%s --version: %w", b.path("postgres"), err)
	}
	// "postgres (PostgreSQL) 15.18 (Debian ...)", "postgres (PostgreSQL) 18beta1"
	words := strings.Fields(string(out))
	if len(words) < 3 {
		return b, fmt.Errorf("%s --version says %q", b.path("postgres"), out)
	}
	digits := words[2]
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	b.major, err = strconv.Atoi(digits)
	return b, err
}

// find returns binaries of the wanted major version, or of any when wanted is 0: the machine's own first, then the
// cache, then a download.
func find(ctx context.Context, wanted int, repository string, log *slog.Logger) (binaries, error) {
	all := installed(ctx)
	var majors []string
	for _, b := range all {
		if wanted == b.major || wanted == 0 && b.major >= MinMajor {
			return b, nil
		}
		majors = append(majors, strconv.Itoa(b.major))
	}
	fetchable, _, _ := strings.Cut(string(downloaded), ".")
	if wanted != 0 && strconv.Itoa(wanted) != fetchable {
		have := "it has none"
		if len(majors) > 0 {
			have = "it has " + strings.Join(majors, ", ")
		}
		return binaries{}, fmt.Errorf("%w: it was made by Postgres %d, which this machine does not have (%s); install Postgres %d, or start with another data directory",
			ErrVersion, wanted, have, wanted)
	}
	return fetch(ctx, repository, log)
}

// fetch returns the downloaded binaries, from the cache if they are there.
func fetch(ctx context.Context, repository string, log *slog.Logger) (binaries, error) {
	cache, err := cacheDir()
	if err != nil {
		return binaries{}, fmt.Errorf("%w: %w", ErrBinaries, err)
	}
	home := filepath.Join(cache, fmt.Sprintf("postgres-%s-%s-%s", downloaded, runtime.GOOS, runtime.GOARCH))
	if b, err := inspect(ctx, filepath.Join(home, "bin")); err == nil {
		return b, nil
	}
	log.Info("downloading Postgres: this machine has none", "version", string(downloaded), "to", home)

	scratch, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return binaries{}, fmt.Errorf("%w: %w", ErrBinaries, err)
	}
	done := make(chan error, 1)
	go func() {
		// The library cannot be told to stop. When ctx ends first, this goroutine goes on until the download is over and
		// then removes what it wrote.
		err := unpack(scratch, repository)
		if err == nil && ctx.Err() == nil {
			err = publish(filepath.Join(scratch, "unpacked"), home)
		}
		_ = os.RemoveAll(scratch)
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return binaries{}, fmt.Errorf("%w: none is installed, and the download failed: %w", ErrBinaries, err)
	}
	b, err := inspect(ctx, filepath.Join(home, "bin"))
	if err != nil {
		return b, fmt.Errorf("%w: the downloaded Postgres does not run here: %w; install Postgres with the system's package manager", ErrBinaries, err)
	}
	return b, nil
}

// unpack downloads, verifies and unpacks the binaries into scratch/unpacked. The library does so only as the first step
// of starting a server, which would fail for root. The data path given to it ends in "/.", which cannot be removed, so
// that Start returns an error of that step, right after unpacking and before it runs anything.
func unpack(scratch, repository string) error {
	target := filepath.Join(scratch, "unpacked")
	config := embeddedpostgres.DefaultConfig().
		Version(downloaded).
		Port(0).
		Logger(io.Discard).
		StartTimeout(time.Second).
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "runtime")).
		BinariesPath(target).
		DataPath(filepath.Join(scratch, "none") + string(filepath.Separator) + ".")
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	err := embeddedpostgres.NewDatabase(config).Start()
	if err != nil && !strings.Contains(err.Error(), "clean up data directory") {
		return err
	}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(target, "bin", name)); err != nil {
			return fmt.Errorf("the archive has no %s", name)
		}
	}
	return nil
}

// publish moves the unpacked files to where they stay. Another process may have been faster; a folder that is there but
// not complete was damaged by someone, and is replaced.
func publish(unpacked, home string) error {
	// The user that Postgres runs as must be able to read them whatever our umask is.
	err := filepath.WalkDir(unpacked, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(unpacked, home); err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(home, "bin", "postgres")); err == nil {
		return nil
	}
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	return os.Rename(unpacked, home)
}

// cacheDir is where downloads are kept. Root's own cache is usually closed to the user that Postgres then runs as.
func cacheDir() (string, error) {
	dir := "/var/cache"
	if os.Geteuid() != 0 {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	dir = filepath.Join(dir, "fencepost")
	return dir, os.MkdirAll(dir, 0o755)
}

// command is a short-lived helper program with a clean environment.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = environment()
	return cmd
}

// environment leaves out everything that would change what Postgres does: PG* variables, locales, other libraries' options.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + os.TempDir()}
}
