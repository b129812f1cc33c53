package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// postgresWire follows what the client prepares and executes. Only unencrypted connections are understood.
type postgresWire struct {
	started  bool
	prepared map[string]string // statement name -> its text

	mu     sync.Mutex
	asked  int // requests that a ReadyForQuery answers: Query, Sync
	loseAt int // the one whose answer is to be lost, 0: none
	ready  int // ReadyForQuery seen
}

func newPostgres() *postgresWire { return &postgresWire{prepared: map[string]string{}} }

// typed reads a message that begins with its type.
func typed(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(5)
	if err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[1:])))
	if size < 4 || size > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	m := make([]byte, 1+size)
	_, err = io.ReadFull(r, m)
	return m, err
}

func (w *postgresWire) request(r *bufio.Reader) ([]byte, string, func(), error) {
	if !w.started {
		// The first message has no type. A cancel request is one, too, and ends there.
		w.started = true
		head, err := r.Peek(4)
		if err != nil {
			return nil, "", nil, err
		}
		size := int(int32(binary.BigEndian.Uint32(head)))
		if size < 8 || size > maxMessage {
			return nil, "", nil, fmt.Errorf("a first message of %d bytes", size)
		}
		m := make([]byte, size)
		if _, err := io.ReadFull(r, m); err != nil {
			return nil, "", nil, err
		}
		w.mu.Lock()
		w.asked++ // the start is answered by a ReadyForQuery, too
		w.mu.Unlock()
		return m, "", nil, nil
	}
	m, err := typed(r)
	if err != nil {
		return nil, "", nil, err
	}
	name := ""
	switch body := m[5:]; m[0] {
	case 'P':
		statement, rest := word(body)
		text, _ := word(rest)
		w.prepared[statement] = text
	case 'B':
		_, rest := word(body)
		statement, _ := word(rest)
		name = w.prepared[statement]
	case 'Q':
		name, _ = word(body)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if m[0] == 'Q' || m[0] == 'S' {
		w.asked++
	}
	at := w.asked
	if m[0] != 'Q' {
		at++ // by the Sync that follows
	}
	return m, name, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.loseAt = at
	}, nil
}

// answer: an answer is over with its ReadyForQuery, which the server sends when the transaction has ended, if it has.
func (w *postgresWire) answer(r *bufio.Reader) (m []byte, lost, over bool, err error) {
	if m, err = typed(r); err != nil {
		return nil, false, false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	lost = w.loseAt != 0 && w.ready+1 == w.loseAt
	if m[0] == 'Z' {
		w.ready++
	}
	return m, lost, m[0] == 'Z', nil
}

// word reads a string that ends with a zero byte.
func word(b []byte) (string, []byte) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return string(b), nil
	}
	return string(b[:i]), b[i+1:]
}
