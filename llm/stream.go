package llm

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"time"
)

// Why a stream was given up on; both are Ambiguous.
var (
	ErrFirstToken = errors.New("the answer did not begin within the first-token limit")
	ErrIdle       = errors.New("the stream stood still for longer than the idle limit")
)

// drainTime bounds the wait for the end of a kept connection's stream behind its terminal marker.
const drainTime = 100 * time.Millisecond

// Stream is Do for an answer that comes as server-sent events: it gives each to take as it arrives, until take says that
// it has seen the last or the body ends. The evidence and the errors are those of Do, and ErrFirstToken and ErrIdle are
// among their causes. A body that ends between events is no error here: whether the answer was whole is what its
// terminal marker says, and the caller's to judge.
//
// An answer that is no stream (another status than 2xx, another content type) is read whole, as by Do.
func (c *Client) Stream(ctx context.Context, req *http.Request, take func(Event) (more bool)) (Response, Wire, error) {
	patience := c.cfg.FirstToken
	late := ErrFirstToken
	if c.cfg.HeaderTimeout > 0 && c.cfg.HeaderTimeout < patience {
		patience, late = c.cfg.HeaderTimeout, errHeaderTimeout
	}
	return c.once(ctx, req, patience, late, func(conn *wireConn, head *http.Response, resp *Response) (bool, error) {
		body := &liveBody{ctx: ctx, conn: conn, body: head.Body, wait: c.cfg.FirstToken, late: ErrFirstToken, left: c.cfg.MaxBodyBytes}
		kind, _, _ := mime.ParseMediaType(head.Header.Get("Content-Type"))
		if head.StatusCode > 299 || kind != "text/event-stream" {
			head.Body = io.NopCloser(body)
			return true, c.readWhole(head, resp)
		}
		resp.Streamed = true
		events := newEventReader(body)
		for {
			e, err := events.next()
			if err == io.EOF {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			body.wait, body.late = c.cfg.Idle, ErrIdle
			if !take(e) {
				return !req.Close && body.drain(), nil
			}
		}
	})
}

// liveBody is a body whose every read has its deadline.
type liveBody struct {
	ctx  context.Context
	conn *wireConn
	body io.Reader
	wait time.Duration
	late error
	left int64
}

func (b *liveBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // the byte too many tells an answer at the limit from one above it
	}
	b.conn.deadline(b.ctx, b.wait)
	n, err := b.body.Read(p)
	b.left -= int64(n)
	var timeout net.Error
	switch {
	case b.left < 0:
		err = errBodyTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		err = b.late
	}
	return n, err
}

// drain reads to the end of a body whose last event was seen, so that the connection can serve another call, and says
// whether it got there. The answer is not made to wait for a server that leaves its stream open.
func (b *liveBody) drain() bool {
	b.wait, b.left = drainTime, min(b.left, inBuffer)
	_, err := io.Copy(io.Discard, b)
	b.conn.deadline(b.ctx, 0)
	return err == nil
}
