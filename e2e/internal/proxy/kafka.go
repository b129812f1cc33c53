package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxMessage bounds what is taken for the length of a message: beyond it the stream is not what it should be.
const maxMessage = 256 << 20

// kafkaWire tells answers by the correlation ids of their requests.
type kafkaWire struct {
	host string
	port int32

	mu      sync.Mutex
	pending map[int32]pendingRequest
}

type pendingRequest struct {
	key, version int16
	lose         bool
}

func newKafka(addr string) *kafkaWire {
	host, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(text)
	return &kafkaWire{host: host, port: int32(port), pending: map[int32]pendingRequest{}}
}

// frame reads a message with its length, of which at least n bytes follow.
func frame(r *bufio.Reader, n int) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	if size < n || size > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	m := make([]byte, 4+size)
	_, err = io.ReadFull(r, m)
	return m, err
}

func (w *kafkaWire) request(r *bufio.Reader) ([]byte, string, func(), error) {
	m, err := frame(r, 8)
	if err != nil {
		return nil, "", nil, err
	}
	key, version := int16(binary.BigEndian.Uint16(m[4:])), int16(binary.BigEndian.Uint16(m[6:]))
	id := int32(binary.BigEndian.Uint32(m[8:]))
	w.mu.Lock()
	w.pending[id] = pendingRequest{key: key, version: version}
	w.mu.Unlock()
	return m, kmsg.NameForKey(key), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		p := w.pending[id]
		p.lose = true
		w.pending[id] = p
	}, nil
}

func (w *kafkaWire) answer(r *bufio.Reader) (m []byte, lost, over bool, err error) {
	if m, err = frame(r, 4); err != nil {
		return nil, false, false, err
	}
	id := int32(binary.BigEndian.Uint32(m[4:]))
	w.mu.Lock()
	p, known := w.pending[id]
	delete(w.pending, id)
	w.mu.Unlock()
	if !known {
		return nil, false, false, fmt.Errorf("an answer to no request: %d", id)
	}
	if !p.lose {
		m, err = w.rewrite(m, p)
	}
	return m, p.lose, p.lose, err
}

// rewrite puts the proxy's address in the place of the broker's.
func (w *kafkaWire) rewrite(m []byte, p pendingRequest) ([]byte, error) {
	resp := kmsg.ResponseForKey(p.key)
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse:
	default:
		return m, nil
	}
	resp.SetVersion(p.version)
	head := 8
	if resp.IsFlexible() {
		head++ // tags of the header, of which there are none
	}
	if err := resp.ReadFrom(m[head:]); err != nil {
		return nil, err
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = w.host, w.port
		}
	case *kmsg.FindCoordinatorResponse:
		if r.Host != "" {
			r.Host, r.Port = w.host, w.port
		}
		for i := range r.Coordinators {
			if r.Coordinators[i].Host != "" {
				r.Coordinators[i].Host, r.Coordinators[i].Port = w.host, w.port
			}
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = w.host, w.port
		}
	}
	m = resp.AppendTo(m[:head:head])
	binary.BigEndian.PutUint32(m, uint32(len(m)-4))
	return m, nil
}
