package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"
)

// Format is a value of -o. It is a pflag.Value, so that a wrong word is refused before anything is done.
type Format string

const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	JSONL Format = "jsonl"
	YAML  Format = "yaml"
	CSV   Format = "csv"
)

// Formats lists them for help texts and completion.
var Formats = []string{string(Table), string(Wide), string(JSON), string(JSONL), string(YAML), string(CSV)}

// String returns the word.
func (f *Format) String() string { return string(*f) }

// Type is what help shows for the value.
func (f *Format) Type() string { return "format" }

// Set takes one of Formats.
func (f *Format) Set(word string) error {
	if !slices.Contains(Formats, word) {
		return fmt.Errorf("want one of %s", strings.Join(Formats, ", "))
	}
	*f = Format(word)
	return nil
}

// Column is one column of a table, or one line of a single thing's view.
type Column[T any] struct {
	Title string
	Wide  bool // only with -o wide
	Text  func(T) string
}

// List writes items. The JSON and YAML forms are an object with the items under key; JSONL is one item a line; CSV has all
// columns. The
// items' JSON fields are a contract: they are only ever added to.
func List[T any](w io.Writer, f Format, key string, items []T, columns []Column[T]) error {
	if items == nil {
		items = []T{}
	}
	switch f {
	case JSON, YAML:
		return document(w, f, map[string][]T{key: items})
	case JSONL:
		enc := encoder(w)
		for _, item := range items {
			if err := enc.Encode(item); err != nil {
				return err
			}
		}
		return nil
	case CSV:
		return table(w, items, columns)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	shown := visible(f, columns)
	row(tw, shown, func(c Column[T]) string { return c.Title })
	for _, item := range items {
		row(tw, shown, func(c Column[T]) string { return c.Text(item) })
	}
	return tw.Flush()
}

// One writes a single thing: as itself in JSON and YAML, as a line for each column otherwise.
func One[T any](w io.Writer, f Format, item T, columns []Column[T]) error {
	switch f {
	case JSON, YAML:
		return document(w, f, item)
	case JSONL:
		return encoder(w).Encode(item)
	case CSV:
		return table(w, []T{item}, columns)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, c := range visible(f, columns) {
		_, _ = fmt.Fprintf(tw, "%s\t%s\n", c.Title, cell(c.Text(item)))
	}
	return tw.Flush()
}

// table writes CSV under the titles, in the form of field names.
func table[T any](w io.Writer, items []T, columns []Column[T]) error {
	out := csv.NewWriter(w)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = strings.ReplaceAll(strings.ToLower(c.Title), " ", "_")
	}
	_ = out.Write(line) // told by Error
	for _, item := range items {
		for i, c := range columns {
			line[i] = c.Text(item)
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

func visible[T any](f Format, columns []Column[T]) []Column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.Wide && f != Wide })
}

func row[T any](w io.Writer, columns []Column[T], text func(Column[T]) string) {
	for i, c := range columns {
		end := "\t"
		if i == len(columns)-1 {
			end = "\n"
		}
		_, _ = io.WriteString(w, cell(text(c))+end)
	}
}

// cell keeps a value in its place: a model's text may hold line breaks, tabs and terminal escapes.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// document writes one JSON or YAML document. YAML is made from the JSON, so that both have the same names and order.
func document(w io.Writer, f Format, v any) error {
	if f == JSON {
		enc := encoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return err
	}
	block(&node)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	return enc.Close()
}

// block drops JSON's braces and quotes; the encoder quotes what needs it, except for the words that are truth values
// to readers of YAML 1.1.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || !slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, strings.ToLower(n.Value)) {
		n.Style = 0
	}
	for _, c := range n.Content {
		block(c)
	}
}

// Time is how an instant is written everywhere: RFC 3339 in UTC; "-" for none.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Number is an integer in a cell.
func Number[T ~int | ~int32 | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }
