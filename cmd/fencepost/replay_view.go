package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/replay"
	"github.com/fencepost/fencepost/tasks"
)

// replayView is what the verbs of replay print. Its JSON is a contract: fields are only added.
type replayView struct {
	replay.Plan
	Cost     costView      `json:"cost"` // of one answer for each task that is re-armed, by what answers of these tasks have cost
	Executed *executedView `json:"executed,omitempty"`
}

type costView struct {
	Currency string  `json:"currency"`
	Amount   *string `json:"amount"` // null: nothing is known
	Unknown  int64   `json:"unknown_tasks"`
}

type executedView struct {
	ID       uuid.UUID `json:"id"`
	Actor    string    `json:"actor"`
	Reason   string    `json:"reason"`
	Resumed  bool      `json:"resumed"`
	Rearmed  int64     `json:"rearmed"` // by all runs of this replay
	Skipped  int64     `json:"skipped"`
	Done     bool      `json:"done"`
	UndoFile string    `json:"undo_file,omitempty"`
}

func viewPlan(p replay.Plan) replayView {
	v := replayView{Plan: p, Cost: costView{Currency: "USD", Unknown: p.Estimate.Unknown}}
	if p.Will.Rearm == 0 || p.Will.Rearm > p.Estimate.Unknown {
		amount := tasks.Dollars(p.Estimate.PicoUSD)
		v.Cost.Amount = &amount
	}
	return v
}

func (v replayView) bytes() []byte {
	text, _ := json.Marshal(v) // numbers and words
	return text
}

var spanColumns = map[string][]cli.Column[replay.Span]{
	"range": {
		{Title: "PARTITION", Text: func(s replay.Span) string { return cli.Number(s.Partition) }},
		{Title: "FROM", Text: func(s replay.Span) string { return offsetCell(s.From) }},
		{Title: "TO", Text: func(s replay.Span) string { return offsetCell(s.To) }},
		{Title: "RECORDS", Text: func(s replay.Span) string { return cli.Number(s.Records) }},
	},
	"rewind": {
		{Title: "PARTITION", Text: func(s replay.Span) string { return cli.Number(s.Partition) }},
		{Title: "POSITION", Text: func(s replay.Span) string { return offsetCell(s.From) }},
		{Title: "TARGET", Text: func(s replay.Span) string { return offsetCell(s.To) }},
		{Title: "MOVE", Text: func(s replay.Span) string {
			if s.From < 0 || s.To < 0 {
				return ""
			}
			return fmt.Sprintf("%+d", s.To-s.From)
		}},
		{Title: "RECORDS BETWEEN", Text: func(s replay.Span) string { return cli.Number(s.Records) }},
	},
}

func offsetCell(o replay.Offset) string {
	if o < 0 {
		return ""
	}
	return cli.Number(int64(o))
}

// print writes the plan, and what became of it.
func (v replayView) print(w io.Writer, output cli.Format) error {
	if output != cli.Table && output != cli.Wide {
		return cli.One(w, output, v, nil)
	}
	if columns := spanColumns[v.Kind]; columns != nil {
		if err := cli.List(w, output, "partitions", v.Partitions, columns); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(w)
	}
	c := v.Tasks
	lines := []cli.Column[replayView]{
		{Title: "TASKS", Text: func(replayView) string {
			return fmt.Sprintf("%d completed, %d failed, %d cancelled, %d unfinished, %d missing", c.Completed, c.Failed, c.Cancelled, c.Unfinished, c.Missing)
		}},
	}
	if v.Kind != "tasks" {
		lines = append(lines, cli.Column[replayView]{Title: "UNREADABLE", Text: func(v replayView) string { return fmt.Sprint(c.Unreadable, " records") }})
	}
	if v.Kind != "rewind" {
		lines = append(lines,
			cli.Column[replayView]{Title: "WILL", Text: func(v replayView) string { return fmt.Sprintf("re-arm %d, skip %d", v.Will.Rearm, v.Will.Skip) }},
			cli.Column[replayView]{Title: "COST", Text: func(v replayView) string { return v.Cost.words() }})
	}
	if e := v.Executed; e != nil {
		lines = append(lines, cli.Column[replayView]{Title: "REPLAY", Text: func(replayView) string { return e.ID.String() }})
		if v.Kind == "rewind" {
			lines = append(lines, cli.Column[replayView]{Title: "UNDO FILE", Text: func(replayView) string { return e.UndoFile }})
		} else {
			lines = append(lines, cli.Column[replayView]{Title: "DONE", Text: func(replayView) string {
				s := fmt.Sprintf("re-armed %d, skipped %d", e.Rearmed, e.Skipped)
				if !e.Done {
					s += ", and there is more to do"
				}
				return s
			}})
		}
	}
	return cli.One(w, output, v, lines)
}

func (c costView) words() string {
	switch {
	case c.Amount == nil:
		return "unknown: no answer under these models has a known cost here"
	case c.Unknown > 0:
		return fmt.Sprintf("about $%s, and %d tasks of unknown cost, if each is answered once", *c.Amount, c.Unknown)
	}
	return fmt.Sprintf("about $%s, if each is answered once", *c.Amount)
}
