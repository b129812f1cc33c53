package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
)

// httpWire tells the requests of HTTP/1.1 apart. What is not HTTP/1.1 is one request whose name is its first line, and
// after it the connection is passed on as it comes: the preface of HTTP/2 ("PRI * HTTP/2.0") and what a CONNECT opens.
type httpWire struct {
	opaque bool
	lose   atomic.Bool // the answer that begins next
}

func (w *httpWire) request(r *bufio.Reader) ([]byte, string, func(), error) {
	if w.opaque {
		m, err := whatever(r)
		return m, "", nil, err
	}
	head, err := httpHead(r)
	if err != nil {
		return nil, "", nil, err
	}
	line, fields, _ := strings.Cut(string(head), "\r\n")
	if !strings.HasSuffix(line, " HTTP/1.1") || strings.HasPrefix(line, "CONNECT ") {
		w.opaque = true
		return head, line + "\n", func() { w.lose.Store(true) }, nil
	}
	body, err := httpBody(r, fields)
	if err != nil {
		return nil, "", nil, err
	}
	return append(head, body...), line + "\n" + string(body), func() { w.lose.Store(true) }, nil
}

// answer: of an answer that is to be lost, the first byte proves that the request was read.
func (w *httpWire) answer(r *bufio.Reader) (m []byte, lost, over bool, err error) {
	m, err = whatever(r)
	lost = w.lose.Load()
	return m, lost, lost, err
}

// httpHead reads up to and with the empty line, or only the first line of what is not HTTP/1.1.
func httpHead(r *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		head = append(head, line...)
		if len(head) > maxMessage {
			return nil, fmt.Errorf("a head of over %d bytes", maxMessage)
		}
		if len(line) <= 2 || len(head) == len(line) && bytes.HasPrefix(line, []byte("PRI ")) {
			return head, nil
		}
	}
}

// httpBody reads what the header fields announce.
func httpBody(r *bufio.Reader, fields string) ([]byte, error) {
	size := 0
	for _, field := range strings.Split(fields, "\r\n") {
		name, value, _ := strings.Cut(field, ":")
		switch value = strings.TrimSpace(value); {
		case strings.EqualFold(name, "Transfer-Encoding"):
			return httpChunks(r)
		case strings.EqualFold(name, "Content-Length"):
			var err error
			if size, err = strconv.Atoi(value); err != nil || size < 0 || size > maxMessage {
				return nil, fmt.Errorf("a body of %q bytes", value)
			}
		}
	}
	body := make([]byte, size)
	_, err := io.ReadFull(r, body)
	return body, err
}

// httpChunks reads a chunked body with its frames.
func httpChunks(r *bufio.Reader) ([]byte, error) {
	var body []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		body = append(body, line...)
		size, err := strconv.ParseUint(strings.TrimSpace(string(line)), 16, 31)
		if err != nil || size > maxMessage {
			return nil, fmt.Errorf("a chunk of %q bytes", line)
		}
		frame := make([]byte, size+2) // the last one's is the empty line after it
		if _, err := io.ReadFull(r, frame); err != nil {
			return nil, err
		}
		if body = append(body, frame...); size == 0 {
			return body, nil
		}
	}
}
