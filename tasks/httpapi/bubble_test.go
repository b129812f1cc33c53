package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

// bubble is a store with any number of servers on it, in virtual time and without a network.
type bubble struct {
	*testing.T
	ctx   context.Context
	store *memory.Store
	api   *api // for its ways to be a worker
}

func inBubble(t *testing.T, do func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{})
		b := &bubble{T: t, ctx: t.Context(), store: store, api: &api{t: t, store: store, secret: tasks.NewKey(), other: tasks.NewKey()}}
		for workspace, secret := range map[string]string{"w1": b.api.secret, "w2": b.api.other} {
			if _, err := store.CreateKey(b.ctx, workspace, "test", tasks.HashKey(secret)); err != nil {
				t.Fatal(err)
			}
		}
		do(b)
	})
}

// server runs one more server until the test ends.
func (b *bubble) server(change func(*Config)) *Server {
	b.Helper()
	c := Config{Store: b.store, Live: b.store, Keys: b.store, Defaults: Defaults{Model: "m"}, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = s.Run(ctx)
	}()
	b.Cleanup(func() {
		stop()
		<-ran
	})
	return s
}

// settle lets everything happen that is about to.
func (b *bubble) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// submit stores a task of workspace w1.
func (b *bubble) submit() uuid.UUID {
	b.Helper()
	id := uuid.Must(uuid.NewV7())
	out, err := b.store.Submit(b.ctx, []tasks.Submission{{
		Workspace: "w1", Operation: tasks.OperationMessage, Key: id.String(), Retention: 48 * time.Hour, TaskID: id, MessageID: uuid.Must(uuid.NewV7()),
		Conversation: "c1", Kind: tasks.KindReply, Request: tasks.Request{Content: "hi", Model: "m"}, MaxAttempts: 50, MaxInterruptions: 50,
		DeadlineAfter: 24 * time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
	}})
	if err != nil || out[0].Err != nil {
		b.Fatal(out, err)
	}
	return id
}

func (b *bubble) publish(pieces ...tasks.LivePiece) {
	b.Helper()
	if err := b.store.Publish(b.ctx, pieces); err != nil {
		b.Fatal(err)
	}
}

// dial connects to a server: what is sent and not read blocks the sender, as a full buffer of a network would.
func (b *bubble) dial(s *Server) net.Conn {
	near, far := net.Pipe()
	served := make(chan struct{})
	web := &http.Server{Handler: s.Handler(), WriteTimeout: 2 * time.Minute, ReadTimeout: 30 * time.Second}
	web.RegisterOnShutdown(s.Drain)
	listener := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	listener.conn <- far
	go func() {
		defer close(served)
		_ = web.Serve(listener)
	}()
	b.Cleanup(func() {
		near.Close()
		web.Close()
		<-served
	})
	return near
}

// oneConn accepts one connection.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// open asks for the events of a task.
func (b *bubble) open(conn net.Conn, id uuid.UUID, headers ...string) *http.Response {
	b.Helper()
	h := "Authorization: Bearer " + b.api.secret + "\r\n"
	for i := 0; i < len(headers); i += 2 {
		h += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/tasks/%s/events HTTP/1.1\r\nHost: x\r\n%s\r\n", id, h); err != nil {
		b.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		b.Fatal(err)
	}
	return resp
}

// sse is a server-sent event as a client has it.
type sse struct{ id, name, data, comment, retry string }

// readSSE reads the next event, or a comment, or io.EOF.
func readSSE(r *bufio.Reader) (e sse, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return e, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			e.comment += value + "."
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data += value
		case "retry":
			e.retry = value
		default:
			return e, fmt.Errorf("line %q", line)
		}
	}
}

// allSSE reads to the end.
func allSSE(r io.Reader) (all []sse, err error) {
	in := bufio.NewReader(r)
	for {
		e, err := readSSE(in)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}
