package child

import "syscall"

// attributes: a group of its own, so that one signal reaches the child and all it starts, and Ctrl-C in the terminal does
// not; and an end with the test binary, however that ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
