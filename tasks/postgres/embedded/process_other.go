//go:build unix && !linux

package embedded

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes makes a child with a session of its own (so that Ctrl-C reaches us and not it), as another user if need be.
func attributes(id identity, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: id.credential}
}

// canPass: there is no way to let a child through closed folders.
func canPass() bool { return false }

// isServerOf reports whether pid is a Postgres at work on cluster, by its command line.
func isServerOf(pid int, cluster string) bool {
	out, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "command=").Output()
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), cluster)
}

// guard starts a shell that waits for the end of our process, which closes the pipe it reads from, and then stops pid.
// The function returned ends the shell without that.
func guard(pid int, id identity) (func(), error) {
	cmd := exec.Command("/bin/sh", "-c", `if read -r _; then exit 0; fi; kill -INT "$1"`, "sh", strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: id.credential}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_, _ = pipe.Write([]byte("done\n"))
		_ = pipe.Close()
		_ = cmd.Wait()
	}, nil
}
