package llm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Limits of a stream of events, beside that of the whole.
const (
	maxLineBytes  = 1 << 20
	maxEventBytes = 2 << 20
)

var (
	errLineTooLong   = errors.New("a line of the stream is too long")
	errEventTooLarge = errors.New("an event of the stream is too large")
)

// Event is one server-sent event. Data is valid until the next one is read.
type Event struct {
	Type string // empty when the server named none
	Data []byte
}

// eventReader reads server-sent events: lines that end in LF, CR or CRLF, comments skipped, ids and retry times ignored.
type eventReader struct {
	in     *bufio.Reader
	line   []byte
	skipLF bool // the last line ended in CR; an LF behind it belongs to it. It is not waited for
	begun  bool
	typ    string
	data   []byte
	fields bool // the event under way has a line
	filled bool // and one of data
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, inBuffer)}
}

// next returns the next whole event. io.EOF comes only between events: one that breaks off is io.ErrUnexpectedEOF,
// since what is missing of it is unknown.
func (r *eventReader) next() (Event, error) {
	r.typ, r.data, r.fields, r.filled = "", r.data[:0], false, false
	for {
		if err := r.readLine(); err != nil {
			if err == io.EOF && (r.fields || len(r.line) > 0 && r.line[0] != ':') {
				err = io.ErrUnexpectedEOF
			}
			return Event{}, err
		}
		if len(r.line) > 0 {
			if err := r.field(); err != nil {
				return Event{}, err
			}
			continue
		}
		if r.filled {
			return Event{Type: r.typ, Data: r.data}, nil
		}
		r.typ, r.fields = "", false
	}
}

func (r *eventReader) field() error {
	if r.line[0] == ':' {
		return nil
	}
	r.fields = true
	name, value, _ := bytes.Cut(r.line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "event":
		r.typ = string(value)
	case "data":
		if len(r.data)+len(value) >= maxEventBytes {
			return errEventTooLarge
		}
		if r.filled {
			r.data = append(r.data, '\n')
		}
		r.data, r.filled = append(r.data, value...), true
	}
	return nil
}

// readLine reads a line without its end. After an error, line holds what there was of it.
func (r *eventReader) readLine() error {
	r.line = r.line[:0]
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return err
		}
		if skip := r.skipLF && b == '\n'; skip {
			r.skipLF = false
			continue
		}
		r.skipLF = b == '\r'
		if b == '\r' || b == '\n' {
			if !r.begun {
				r.begun, r.line = true, bytes.TrimPrefix(r.line, []byte("\xEF\xBB\xBF"))
			}
			return nil
		}
		if len(r.line) >= maxLineBytes {
			return errLineTooLong
		}
		r.line = append(r.line, b)
	}
}
