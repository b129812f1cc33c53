package node

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// nextPorts is how far NextPort looks.
const nextPorts = 100

// listen opens a TCP listener; flag names the setting for messages.
func listen(address, flag string, next bool) (net.Listener, error) {
	host, port, perr := net.SplitHostPort(address)
	number, nerr := strconv.Atoi(port)
	l, err := net.Listen("tcp", address)
	if err == nil && perr == nil {
		return l, nil
	}
	if perr != nil || nerr != nil {
		if err == nil {
			_ = l.Close() // an empty address is any port of all interfaces, which nobody meant
		}
		return nil, &Problem{Kind: ErrListen, Text: fmt.Sprintf("--%s: %q is not an address", flag, address), Hint: "for example 127.0.0.1:8080"}
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, &Problem{Kind: ErrListen, Text: "--" + flag, Err: err, Hint: "choose another address with --" + flag}
	}
	if next {
		for n := number + 1; n <= min(number+nextPorts, 65535); n++ {
			if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n))); err == nil {
				return l, nil
			}
		}
	}
	return nil, &Problem{Kind: ErrListen, Text: fmt.Sprintf("address %s is taken", address),
		Hint: fmt.Sprintf("choose another one with --%s; %s takes any free port", flag, net.JoinHostPort(host, "0"))}
}

// reachable is an address that a browser on this machine can use for a listener.
func reachable(l net.Listener) string {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return l.Addr().String()
	}
	if tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return tcp.String()
}
