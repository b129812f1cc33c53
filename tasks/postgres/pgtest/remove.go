package pgtest

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// lifelines are the pipes that the shells of removeAfter read from. A pipe that nothing refers to is closed by the garbage
// collector, and the files would go from under the running server.
var lifelines []io.WriteCloser

// removeAfter leaves a shell behind that waits for the end of this process, which closes the pipe it reads from, then
// for the server's, and removes its folder.
func removeAfter(server int, dir string) error {
	cmd := exec.Command("/bin/sh", "-c",
		`read -r _; n=0; while kill -0 "$1" 2>/dev/null && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done; rm -rf "$2"`,
		"sh", strconv.Itoa(server), dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	lifelines = append(lifelines, pipe)
	return cmd.Start()
}
