package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for the browser; a machine with a few busy cores takes seconds to start one.
const patience = time.Minute

var errClosed = errors.New("the browser has closed its pipe")

// Browser is a running Chromium.
type Browser struct {
	t    testing.TB
	cmd  *exec.Cmd
	to   *os.File
	from *os.File
	done chan struct{} // the reading has ended

	mu     sync.Mutex
	next   int
	calls  map[int]chan reply
	tabs   map[string]*Tab // by session
	closed bool
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *protocolError  `json:"error,omitempty"`
}

type protocolError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type reply struct {
	result json.RawMessage
	err    error
}

// Start starts a browser that ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	name := os.Getenv("FENCEPOST_TEST_CHROMIUM")
	if name == "" {
		name = "chromium"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("Chromium is not on this machine (%v); Debian's package is chromium, and .ci/run installs it", err)
	}
	itsIn, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, itsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, to: to, from: from, done: make(chan struct{}), calls: map[int]chan reply{}, tabs: map[string]*Tab{}}
	// Its sandbox wants a user that is not root and a kernel that lets it; the pages are our own.
	b.cmd = exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--log-level=3", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "about:blank")
	b.cmd.ExtraFiles = []*os.File{itsIn, itsOut} // 3 and 4
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var errs bytes.Buffer
	b.cmd.Stderr = &errs
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = itsIn.Close(), itsOut.Close()
	go b.read()
	t.Cleanup(func() {
		b.close()
		if t.Failed() {
			t.Logf("Chromium said:\n%s", errs.String())
		}
	})
	return b
}

// close ends the browser and all that it has started.
func (b *Browser) close() {
	_ = b.to.Close() // it ends by itself, and in order
	ended := make(chan struct{})
	go func() { defer close(ended); _ = b.cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
	}
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
	<-ended
	<-b.done
	_ = b.from.Close()
}

func (b *Browser) read() {
	defer close(b.done)
	in := bufio.NewReaderSize(b.from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue
		}
		b.mu.Lock()
		call, tab := b.calls[m.ID], b.tabs[m.Session]
		delete(b.calls, m.ID)
		b.mu.Unlock()
		switch {
		case call != nil && m.Error != nil:
			call <- reply{err: errors.New(m.Error.Message)}
		case call != nil:
			call <- reply{result: m.Result}
		case tab != nil && m.Method != "":
			tab.event(m.Method, m.Params)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for id, call := range b.calls {
		call <- reply{err: errClosed}
		delete(b.calls, id)
	}
}

// call asks the browser, or a tab of it, for something. into may be nil.
func (b *Browser) call(session, method string, params, into any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan reply, 1)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return errClosed
	}
	b.next++
	m := message{ID: b.next, Session: session, Method: method, Params: text}
	b.calls[m.ID] = answer
	line, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(line, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case r := <-answer:
		if r.err != nil {
			return fmt.Errorf("%s: %w", method, r.err)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(r.result, into)
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer", method)
	}
}
