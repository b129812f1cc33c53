//go:build unix && !linux

package broker

import "syscall"

// attributes: a group of its own. Only Linux can bind a child's life to ours; elsewhere a killed test binary may leave
// its broker running.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
