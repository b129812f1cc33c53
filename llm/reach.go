package llm

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
)

// Reach opens a connection to url as a call would, through the proxy and with TLS, and closes it without having sent a
// request: nothing can be charged for it. The state is nil without TLS.
func (c *Client) Reach(ctx context.Context, url string) (*tls.ConnectionState, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return nil, errors.New("the URL cannot be read") // its text repeats the URL, which may hold a password
	}
	conn, err := c.connect(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	if t, ok := conn.Conn.(*tls.Conn); ok {
		state := t.ConnectionState()
		return &state, nil
	}
	return nil, nil
}
