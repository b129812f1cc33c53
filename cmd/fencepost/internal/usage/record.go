package usage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	// MaxBytes bounds an export.
	MaxBytes = 64 << 20
	// MaxRecords bounds the rows of one.
	MaxRecords = 1_000_000

	maxTokens = 1e15 // in one record; more is no count, and must not overflow a sum
)

// Record is what an export says of one request, or of all of a model in a stretch of time.
type Record struct {
	Time      time.Time // UTC; when it began
	Model     string
	RequestID string // empty: it is a sum

	Requests          int64 // -1: not said
	InputTokens       int64 // all of them, cached or not
	CachedInputTokens int64 // read from a cache; -1: not said
	OutputTokens      int64
	PicoUSD           *int64 // nil: not said
	Line              int    // where it begins
}

// Export is what was read.
type Export struct {
	Provider string // the name that its form tells; empty: none
	Records  []Record
	Partial  bool // it says of itself that there are more pages
}

// ByRequest reports whether each record is of one request.
func (e Export) ByRequest() bool {
	return len(e.Records) > 0 && !slices.ContainsFunc(e.Records, func(r Record) bool { return r.RequestID == "" })
}

// Period is from the first day of the export to the end of the last.
func (e Export) Period() (from, to time.Time) {
	for i, r := range e.Records {
		if i == 0 || r.Time.Before(from) {
			from = r.Time
		}
		if i == 0 || r.Time.After(to) {
			to = r.Time
		}
	}
	return day(from), day(to).AddDate(0, 0, 1)
}

func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// LineError is a place in an export that cannot be read.
type LineError struct {
	Line int
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

var (
	errTooLong  = fmt.Errorf("the export has more than %d MiB", MaxBytes>>20)
	errTooMany  = fmt.Errorf("the export has more than %d rows", MaxRecords)
	errEmpty    = errors.New("the export has no rows")
	errMixed    = errors.New("some rows have a request id and others have none")
	errNoModel  = errors.New("the model is missing: ask the provider for usage grouped by model")
	errNegative = errors.New("a count is negative")
	errHuge     = fmt.Errorf("a count is more than %.0e", maxTokens)
)

// Read reads an export of any known form. Its error wraps a *LineError where a line is wrong.
func Read(r io.Reader) (Export, error) {
	in := bufio.NewReader(&bounded{r: r, left: MaxBytes})
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	json, err := startsJSON(in)
	if err != nil {
		return Export{}, err
	}
	var e Export
	if json {
		err = e.readPages(in)
	} else {
		err = e.readCSV(in)
	}
	switch {
	case err != nil:
		return Export{}, err
	case len(e.Records) == 0:
		return Export{}, errEmpty
	case !e.ByRequest() && slices.ContainsFunc(e.Records, func(r Record) bool { return r.RequestID != "" }):
		i := slices.IndexFunc(e.Records, func(r Record) bool { return r.RequestID == "" })
		return Export{}, &LineError{e.Records[i].Line, errMixed}
	}
	return e, nil
}

func startsJSON(in *bufio.Reader) (bool, error) {
	for n := 1; ; n++ {
		head, err := in.Peek(n)
		if len(head) < n {
			if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
				return false, errEmpty
			}
			return false, err
		}
		switch head[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return true, nil
		default:
			return false, nil
		}
	}
}

// add checks a record and keeps it.
func (e *Export) add(r Record) error {
	fail := func(err error) error { return &LineError{r.Line, err} }
	if len(e.Records) == MaxRecords {
		return fail(errTooMany)
	}
	if r.Model == "" {
		return fail(errNoModel)
	}
	for _, n := range [...]int64{r.InputTokens, r.OutputTokens, max(0, r.CachedInputTokens), max(0, r.Requests)} {
		if n < 0 {
			return fail(errNegative)
		}
		if n > maxTokens {
			return fail(errHuge)
		}
	}
	if y := r.Time.Year(); y < 2000 || y > 2200 {
		return fail(fmt.Errorf("the time %s cannot be meant", r.Time.Format(time.RFC3339)))
	}
	r.Time = r.Time.UTC()
	e.Records = append(e.Records, r)
	return nil
}

// bounded fails a reader that goes on for too long, where io.LimitReader would end it, as if that were all.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
