//go:build unix

package llm

import (
	"net"
	"syscall"
)

// quiet reports whether an idle connection is open and has nothing to say. Whatever its server sent between two calls (the
// end, a reset, a 408, a TLS alert) makes it unfit for another request.
func quiet(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	ok = false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		ok = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return ok && err == nil
}
