package usage

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// columns are the names that a column may have.
var columns = map[string][]string{
	"time":     {"start_time", "date"},
	"model":    {"model"},
	"requests": {"requests"},
	"input":    {"input_tokens"},
	"cached":   {"cached_input_tokens"},
	"output":   {"output_tokens"},
	"amount":   {"amount"},
	"request":  {"request_id"},
}

func (e *Export) readCSV(in io.Reader) error {
	r := csv.NewReader(in)
	r.ReuseRecord, r.TrimLeadingSpace = true, true
	header, err := r.Read()
	if err != nil {
		return csvError(err)
	}
	at, err := places(header)
	if err != nil {
		return &LineError{1, err}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return csvError(err)
		}
		line, _ := r.FieldPos(0)
		record, err := at.record(row)
		if err != nil {
			return &LineError{line, err}
		}
		record.Line = line
		if err := e.add(record); err != nil {
			return err
		}
	}
}

// csvError takes the line out of the parser's own error.
func csvError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &LineError{parse.Line, parse.Err}
	}
	return err
}

// place is where the columns are, by the names of columns.
type place map[string]int

func places(header []string) (place, error) {
	at := make(place)
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		for meaning, names := range columns {
			if !slices.Contains(names, name) {
				continue
			}
			if _, twice := at[meaning]; twice {
				return nil, fmt.Errorf("two columns say the same as %s", strings.Join(names, " or "))
			}
			at[meaning] = i
		}
	}
	for _, needed := range []string{"time", "model", "input", "output"} {
		if _, ok := at[needed]; !ok {
			return nil, fmt.Errorf("there is no column %s; a header with date, model, input_tokens and output_tokens is needed",
				strings.Join(columns[needed], " or "))
		}
	}
	return at, nil
}

func (at place) record(row []string) (Record, error) {
	text := func(meaning string) string {
		if i, ok := at[meaning]; ok {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	r := Record{Model: strings.Clone(text("model")), RequestID: strings.Clone(text("request")), Requests: -1, CachedInputTokens: -1}
	var err error
	if r.Time, err = parseTime(text("time")); err != nil {
		return r, err
	}
	for _, count := range []struct {
		meaning string
		to      *int64
	}{{"input", &r.InputTokens}, {"output", &r.OutputTokens}, {"cached", &r.CachedInputTokens}, {"requests", &r.Requests}} {
		word := text(count.meaning)
		if word == "" && *count.to < 0 {
			continue // it may be missing
		}
		n, err := strconv.ParseUint(word, 10, 63)
		if err != nil {
			return r, fmt.Errorf("%s: %q is not a number of them", columns[count.meaning][0], word)
		}
		*count.to = int64(n)
	}
	if r.RequestID != "" && r.Requests < 0 {
		r.Requests = 1
	}
	if word := text("amount"); word != "" {
		pico, err := tasks.ParseDollars(word)
		if err != nil {
			return r, fmt.Errorf("amount: %w", err)
		}
		r.PicoUSD = &pico
	}
	return r, nil
}

func parseTime(word string) (time.Time, error) {
	if seconds, err := strconv.ParseInt(word, 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC(), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339, time.DateTime} {
		if t, err := time.Parse(layout, word); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time, like 2026-11-30 or 2026-11-30T12:00:00Z", word)
}
