//go:build unix && !linux

package child

import "syscall"

// attributes: a group of its own. Only Linux can bind a child's life to ours; elsewhere a killed test binary may leave
// its children running.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
