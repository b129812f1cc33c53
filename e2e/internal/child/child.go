package child

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a process in a process group of its own.
type Child struct {
	pid  int
	done chan struct{}
	code int
}

// Start runs a command with the environment env (nil: ours). Its output is appended to the file log.
func Start(log string, env []string, name string, args ...string) (*Child, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(name, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	c := &Child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := cmd.Start()
		out.Close() // the child has its own
		if err != nil {
			started <- err
			return
		}
		c.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // how it ended is in its state
		c.code = cmd.ProcessState.ExitCode()
	}()
	if err := <-started; err != nil {
		<-c.done
		return nil, err
	}
	return c, nil
}

// Pid is the process id, also after the end.
func (c *Child) Pid() int { return c.pid }

// Done is closed when the process has ended and its ending is known.
func (c *Child) Done() <-chan struct{} { return c.done }

// Alive reports whether the process is there, maybe stopped by a signal.
func (c *Child) Alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// ExitCode waits for the end and returns the exit code, -1 when a signal ended the process.
func (c *Child) ExitCode() int {
	<-c.done
	return c.code
}

// Signal reaches the process and what it has started.
func (c *Child) Signal(s syscall.Signal) error {
	if !c.Alive() {
		return os.ErrProcessDone
	}
	return syscall.Kill(-c.pid, s)
}

// Tail returns the last n bytes of a file, or why they cannot be had.
func Tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-n), io.SeekStart)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}
