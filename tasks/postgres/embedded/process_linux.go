package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// capDACReadSearch and capDACOverride are numbers of linux/capability.h.
const (
	capDACOverride   = 1
	capDACReadSearch = 2
)

// attributes makes a child that is another user if need be, has a session of its own (so that Ctrl-C reaches us and not
// it), and gets death when the thread that started it is gone.
//
// Where a folder above the data is closed to that user, as root's home and root's temporary folders are, the child may
// keep the one capability that lets it pass. Opening the folders to everybody would be the worse choice.
func attributes(id identity, death syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: death, Credential: id.credential}
	if id.closed != "" {
		if c, ok := passCapability(); ok {
			attr.AmbientCaps = []uintptr{c}
		}
	}
	return attr
}

// canPass reports whether attributes can let a child through closed folders.
func canPass() bool {
	_, ok := passCapability()
	return ok
}

// passCapability picks the weaker of the two that we have and may hand on.
func passCapability() (uintptr, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	var permitted, bounding uint64
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "CapPrm: %x", &permitted)
		_, _ = fmt.Sscanf(line, "CapBnd: %x", &bounding)
	}
	for _, c := range []uintptr{capDACReadSearch, capDACOverride} {
		if permitted&bounding&(1<<c) != 0 {
			return c, true
		}
	}
	return 0, false
}

// isServerOf reports whether pid is a Postgres at work on cluster: it has the folder as its working directory.
func isServerOf(pid int, cluster string) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(cluster)
	return err == nil && cwd == real
}

// guard is not needed where the kernel tells the child.
func guard(int, identity) (func(), error) { return func() {}, nil }
