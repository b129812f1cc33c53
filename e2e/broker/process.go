package broker

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child in a process group of its own. It never outlives this process.
type process struct {
	pid  int
	done chan struct{} // closed when it has ended and been waited for
}

// startProcess runs a command whose output is appended to the file log.
func startProcess(log, name string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		defer close(p.done)
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // how it ended is in its log
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal reaches the whole group.
func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.pid, s) }
