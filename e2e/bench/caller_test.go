package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// caller is a client with one connection that costs next to nothing: it shares two cores with what is measured.
type caller struct {
	conn net.Conn
	r    *bufio.Reader
	host string
	key  string
}

func dial(api, key string) (*caller, error) {
	host := strings.TrimPrefix(api, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, r: bufio.NewReader(conn), host: host, key: key}, nil
}

// submit posts one message and returns the status.
func (c *caller) submit(conversation, idempotency, content string) (status int, err error) {
	_, err = fmt.Fprintf(c.conn, "POST /v1/conversations/%s/messages HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Idempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"content\":\"%s\"}",
		conversation, c.host, c.key, idempotency, len(content)+len(`{"content":""}`), content)
	if err != nil {
		return 0, err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		switch {
		case first:
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, err
			}
		case len(line) == 2:
			_, err := io.CopyN(io.Discard, c.r, int64(length))
			return status, err
		case strings.HasPrefix(string(line), "Content-Length: "):
			if length, err = strconv.Atoi(strings.TrimSpace(string(line[16:]))); err != nil {
				return 0, err
			}
		}
	}
}
