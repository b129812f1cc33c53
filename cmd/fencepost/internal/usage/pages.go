package usage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"
)

const maxResults = 100_000 // of one bucket

// bucket is a stretch of time in a page of either provider.
type bucket struct {
	StartTime  *int64     `json:"start_time"` // OpenAI: Unix seconds
	EndTime    *int64     `json:"end_time"`
	StartingAt *time.Time `json:"starting_at"` // Anthropic
	EndingAt   *time.Time `json:"ending_at"`
	Results    results    `json:"results"`
}

// results are read one by one, since a list of empty ones takes up much more memory than it is long.
type results []result

// UnmarshalJSON implements json.Unmarshaler.
func (rs *results) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	token, err := dec.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return errors.New(`"results" is not a list`)
	}
	for dec.More() {
		if len(*rs) == maxResults {
			return fmt.Errorf("a bucket has more than %d results", maxResults)
		}
		var r result
		if err := dec.Decode(&r); err != nil {
			return err
		}
		*rs = append(*rs, r)
	}
	return nil
}

// result is what a bucket says of a model. OpenAI's input has the cached part in it; Anthropic's kinds are disjoint, and
// it counts no requests.
type result struct {
	Model  *string `json:"model"`
	Output *int64  `json:"output_tokens"`

	Input    *int64 `json:"input_tokens"`
	Cached   *int64 `json:"input_cached_tokens"`
	Requests *int64 `json:"num_model_requests"`

	Uncached  *int64 `json:"uncached_input_tokens"`
	CacheRead int64  `json:"cache_read_input_tokens"`
	Created   struct {
		Hour    int64 `json:"ephemeral_1h_input_tokens"`
		Minutes int64 `json:"ephemeral_5m_input_tokens"`
	} `json:"cache_creation"`
}

// readPages reads pages that follow one another, or stand in one list, bucket by bucket.
func (e *Export) readPages(in io.Reader) error {
	lines := &lineCounter{r: in}
	dec := json.NewDecoder(lines)
	p := pages{Export: e, dec: dec, lines: lines}
	for open := 0; ; {
		token, err := dec.Token()
		switch {
		case errors.Is(err, io.EOF) && open == 0:
			return nil
		case err != nil:
			return p.fail(err)
		case token == json.Delim('[') && open == 0: // a list of pages
			open++
		case token == json.Delim(']'):
			open--
		case token == json.Delim('{'):
			if err := p.page(); err != nil {
				return p.fail(err)
			}
		default:
			return p.fail(fmt.Errorf("%v where a page with data was expected", token))
		}
	}
}

type pages struct {
	*Export
	dec   *json.Decoder
	lines *lineCounter
}

// fail names the line that was being read.
func (p *pages) fail(err error) error {
	var line *LineError
	if errors.As(err, &line) || errors.Is(err, errTooLong) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &LineError{p.lines.line(p.dec.InputOffset()), err}
}

// page reads the rest of an object whose beginning was read.
func (p *pages) page() error {
	said := false
	for p.dec.More() {
		name, err := p.dec.Token()
		if err != nil {
			return err
		}
		switch name {
		case "data":
			said = true
			if err := p.data(); err != nil {
				return err
			}
		case "has_more":
			if err := p.dec.Decode(&p.Partial); err != nil {
				return err
			}
		default:
			var skipped json.RawMessage
			if err := p.dec.Decode(&skipped); err != nil {
				return err
			}
		}
	}
	if !said {
		return errors.New(`the page has no "data": it is none of OpenAI's organization usage or Anthropic's usage report`)
	}
	_, err := p.dec.Token() // the end of the object
	return err
}

func (p *pages) data() error {
	if token, err := p.dec.Token(); err != nil || token != json.Delim('[') {
		return cmp.Or(err, errors.New(`"data" is not a list of buckets`))
	}
	for p.dec.More() {
		line := p.lines.line(p.dec.InputOffset())
		var b bucket
		if err := p.dec.Decode(&b); err != nil {
			return err
		}
		if err := p.bucket(b, line); err != nil {
			return err
		}
	}
	_, err := p.dec.Token()
	return err
}

func (p *pages) bucket(b bucket, line int) error {
	var from, to time.Time
	provider := "openai"
	switch {
	case b.StartTime != nil && b.EndTime != nil:
		from, to = time.Unix(*b.StartTime, 0), time.Unix(*b.EndTime, 0)
	case b.StartingAt != nil && b.EndingAt != nil:
		from, to, provider = *b.StartingAt, *b.EndingAt, "anthropic"
	default:
		return &LineError{line, errors.New("a bucket has neither start_time and end_time nor starting_at and ending_at")}
	}
	if p.Provider == "" {
		p.Provider = provider
	}
	if p.Provider != provider {
		return &LineError{line, errors.New("pages of two providers")}
	}
	if from = from.UTC(); to.After(day(from).AddDate(0, 0, 1)) {
		return &LineError{line, fmt.Errorf("the bucket from %s to %s is not within a UTC day: ask for buckets of a day or less",
			from.Format(time.RFC3339), to.UTC().Format(time.RFC3339))}
	}
	for _, r := range b.Results {
		record, err := r.record(provider)
		if err != nil {
			return &LineError{line, err}
		}
		record.Time, record.Line = from, line
		if err := p.add(record); err != nil {
			return err
		}
	}
	return nil
}

func (r result) record(provider string) (Record, error) {
	out := Record{Requests: -1, CachedInputTokens: -1}
	if r.Model != nil {
		out.Model = *r.Model
	}
	if r.Output == nil {
		return out, errors.New("a result has no output_tokens")
	}
	out.OutputTokens = *r.Output
	switch {
	case provider == "openai" && r.Input != nil:
		out.InputTokens = *r.Input
		for _, may := range []struct{ said, to *int64 }{{r.Cached, &out.CachedInputTokens}, {r.Requests, &out.Requests}} {
			if may.said != nil {
				if *may.to = *may.said; *may.to < 0 {
					return out, errNegative
				}
			}
		}
	case provider == "anthropic" && r.Uncached != nil:
		for _, n := range [...]int64{*r.Uncached, r.CacheRead, r.Created.Hour, r.Created.Minutes} {
			if n < 0 {
				return out, errNegative
			}
			if n > maxTokens {
				return out, errHuge
			}
			out.InputTokens += n
		}
		out.CachedInputTokens = r.CacheRead
	default:
		return out, errors.New("a result has no input tokens of its provider's kind")
	}
	return out, nil
}

// lineCounter remembers where lines end in what is read through it.
type lineCounter struct {
	r    io.Reader
	at   int64
	ends []int64
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.ends = append(c.ends, c.at+int64(i))
		}
	}
	c.at += int64(n)
	return n, err
}

// line is the number of the line, from 1, in which the byte stands.
func (c *lineCounter) line(offset int64) int {
	return 1 + sort.Search(len(c.ends), func(i int) bool { return c.ends[i] >= offset })
}
