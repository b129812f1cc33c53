package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/lag"
)

// clearScreen moves a watching person's terminal to a clean first line.
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// show writes one report. n counts the looks, so that a watch is more than one document only where that can be read.
func (l *lagCommand) show(r lag.Report, n int) error {
	if !l.members {
		r.MemberList = nil
	}
	if *l.output == cli.CSV {
		return cli.List(l.a.Out, cli.CSV, "partitions", r.Partitions, lagColumns(r))
	}
	if *l.output != cli.Table && *l.output != cli.Wide {
		if *l.output == cli.YAML && n > 1 {
			if _, err := fmt.Fprintln(l.a.Out, "---"); err != nil {
				return err
			}
		}
		return cli.One(l.a.Out, *l.output, r, nil)
	}
	var b strings.Builder
	switch {
	case l.watch > 0 && l.a.OutTTY:
		b.WriteString(clearScreen)
	case n > 1:
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "GROUP %s  TOPIC %s  STATE %s  MEMBERS %d  OFFSETS %s  LAG %s  SECONDS %s  STATUS %s\n",
		r.Group, r.Topic, r.State, r.Members, r.Offsets, orDash(number(r.TotalLag)), orDash(decimal(r.MaxSeconds)), r.Status)
	if err := cli.List(&b, *l.output, "partitions", r.Partitions, lagColumns(r)); err != nil {
		return err
	}
	if l.members {
		b.WriteString("\n")
		if err := cli.List(&b, *l.output, "members", r.MemberList, memberColumns); err != nil {
			return err
		}
	}
	for _, p := range r.Partitions {
		if p.Why != "" {
			fmt.Fprintf(&b, "%s partition %d: %s\n", p.Status, p.Partition, p.Why)
		}
	}
	for _, problem := range r.Problems {
		l.a.note("Note: %s", problem)
	}
	_, err := l.a.Out.Write([]byte(b.String()))
	return err
}

func lagColumns(r lag.Report) []cli.Column[lag.Partition] {
	stored := cli.Column[lag.Partition]{Title: "STORED", Wide: r.Offsets != "postgres", Text: func(p lag.Partition) string { return number(p.Stored) }}
	head := func(text func(lag.Head) string) func(lag.Partition) string {
		return func(p lag.Partition) string {
			if p.Head == nil {
				return ""
			}
			return text(*p.Head)
		}
	}
	return []cli.Column[lag.Partition]{
		{Title: "PARTITION", Text: func(p lag.Partition) string { return cli.Number(p.Partition) }},
		{Title: "STATUS", Text: func(p lag.Partition) string { return string(p.Status) }},
		{Title: "COMMITTED", Text: func(p lag.Partition) string { return number(p.Committed) }},
		stored,
		{Title: "POSITION", Wide: true, Text: func(p lag.Partition) string { return number(p.Position) }},
		{Title: "START", Wide: true, Text: func(p lag.Partition) string { return number(p.Start) }},
		{Title: "END", Text: func(p lag.Partition) string { return number(p.End) }},
		{Title: "LAG", Text: func(p lag.Partition) string { return number(p.Lag) }},
		{Title: "SECONDS", Text: func(p lag.Partition) string { return decimal(p.LagSeconds) }},
		{Title: "AHEAD", Text: func(p lag.Partition) string { return number(p.SettledAhead) }},
		{Title: "RATE", Wide: true, Text: func(p lag.Partition) string { return decimal(p.Rate) }},
		{Title: "ETA", Text: func(p lag.Partition) string { return eta(p) }},
		{Title: "HEAD", Text: head(func(h lag.Head) string { return number(h.Offset) })},
		{Title: "TASK", Text: head(func(h lag.Head) string { return h.Task })},
		{Title: "ATTEMPT", Text: head(func(h lag.Head) string {
			if h.Attempt == nil {
				return ""
			}
			return strconv.Itoa(*h.Attempt)
		})},
		{Title: "TASK STATUS", Text: head(func(h lag.Head) string { return h.TaskStatus })},
		{Title: "CLIENT", Text: func(p lag.Partition) string { return p.ClientID }},
		{Title: "HOST", Wide: true, Text: func(p lag.Partition) string { return p.Host }},
		{Title: "MEMBER", Wide: true, Text: func(p lag.Partition) string { return p.Member }},
	}
}

var memberColumns = []cli.Column[lag.Member]{
	{Title: "MEMBER", Text: func(m lag.Member) string { return m.ID }},
	{Title: "INSTANCE", Wide: true, Text: func(m lag.Member) string { return m.InstanceID }},
	{Title: "CLIENT", Text: func(m lag.Member) string { return m.ClientID }},
	{Title: "HOST", Text: func(m lag.Member) string { return m.Host }},
	{Title: "LAG", Text: func(m lag.Member) string { return number(m.Lag) }},
	{Title: "PARTITIONS", Text: func(m lag.Member) string {
		words := make([]string, len(m.Partitions))
		for i, p := range m.Partitions {
			words[i] = cli.Number(p)
		}
		return strings.Join(words, ",")
	}},
}

func decimal(s lag.Seconds) string {
	if !s.Known() {
		return ""
	}
	return strconv.FormatFloat(float64(s), 'f', 1, 64)
}

// eta is how long the lag takes at the present rate: ∞ where nothing moves.
func eta(p lag.Partition) string {
	switch {
	case p.Lag == 0:
		return "0s"
	case p.ETASeconds.Known():
		return p.ETASeconds.Duration().Round(time.Second).String()
	case p.Rate == 0:
		return "∞"
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
