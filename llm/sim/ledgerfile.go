package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// fileLine is one line of the ledger's file: something that happened, in the order it happened.
type fileLine struct {
	Arrived *entry `json:"arrived,omitempty"`
	Ended   *ended `json:"ended,omitempty"`
	Cleared *int64 `json:"cleared,omitempty"` // the last number given before
}

type ended struct {
	N            int64  `json:"n"`
	Done         string `json:"done"`
	Status       int    `json:"status,omitempty"`
	ClientGone   bool   `json:"client_gone,omitempty"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
}

// ledgerFile appends lines, each with one write, without a sync: what was written outlives the process, not the machine.
type ledgerFile struct{ f *os.File }

// openLedger reads what an earlier process left. A last line that it did not finish is cut off.
func openLedger(path string) (*ledger, error) {
	l := &ledger{}
	if path == "" {
		return l, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	good, err := l.load(f)
	if err == nil {
		err = f.Truncate(good)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read the ledger %s: %w", path, err)
	}
	l.file = &ledgerFile{f}
	return l, nil
}

// load returns how many bytes are whole lines.
func (l *ledger) load(r io.Reader) (good int64, err error) {
	open := map[int64]*entry{}
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return good, nil
		}
		if err != nil {
			return good, err
		}
		var what fileLine
		if err := json.Unmarshal(bytes.TrimSpace(line), &what); err != nil {
			return good, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case what.Arrived != nil:
			l.last = max(l.last, what.Arrived.N)
			l.add(what.Arrived)
			open[what.Arrived.N] = what.Arrived
		case what.Ended != nil:
			if e := open[what.Ended.N]; e != nil {
				l.finish(e, *what.Ended)
				delete(open, e.N)
			}
		case what.Cleared != nil:
			*l = ledger{last: *what.Cleared}
			clear(open)
		default:
			return good, fmt.Errorf("line %d: it is no line of a ledger", n)
		}
		good += int64(len(line))
	}
}

func (f *ledgerFile) write(line fileLine) error {
	if f == nil {
		return nil
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = f.f.Write(append(b, '\n'))
	return err
}

func (f *ledgerFile) clear(last int64) error {
	if f == nil {
		return nil
	}
	return errors.Join(f.f.Truncate(0), f.write(fileLine{Cleared: &last}))
}

func (f *ledgerFile) close() error {
	if f == nil {
		return nil
	}
	return f.f.Close()
}
