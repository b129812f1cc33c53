package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// newDir makes a folder for one broker, and removes those of brokers whose test binary was killed. Each folder has a
// lock that its test binary holds while it lives.
func newDir() (dir string, free func(), err error) {
	root := filepath.Join(os.TempDir(), fmt.Sprintf("fencepost-kafka-%d", os.Getuid()))
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", nil, err
	}
	// Nobody sweeps between the making of a folder and the taking of its lock.
	unlock, err := lock(filepath.Join(root, "lock"))
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	sweep(root)
	dir, err = os.MkdirTemp(root, "broker-")
	if err != nil {
		return "", nil, err
	}
	free, err = lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, err
	}
	return dir, free, nil
}

// sweep removes what it can; what it cannot remove is left to the next.
func sweep(root string) {
	dirs, _ := filepath.Glob(filepath.Join(root, "broker-*"))
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}
