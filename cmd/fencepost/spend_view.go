package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
	"github.com/fencepost/fencepost/tasks"
)

func (r *reconcile) show(report usage.Report, unknown []tasks.AttemptUsage) reconciliation {
	out := reconciliation{
		From: cli.Time(r.from), To: cli.Time(r.to), Provider: r.provider, By: "day_and_model",
		Export: *showSide(report.Export), Ledger: *showSide(report.Ledger), Differences: []usageDiffers{},
		LeftOut: report.LeftOut, OffTokens: report.Off, Tolerance: r.tolerance, Unknown: []unknownUsage{},
	}
	if report.ByRequest {
		out.By = "request"
	}
	for _, d := range report.Differences {
		shown := usageDiffers{
			Kind: d.Kind, Day: d.Day.Format(time.DateOnly), Model: d.Model, RequestID: d.RequestID, Task: d.TaskID, Attempt: d.Attempt,
			OffTokens: d.Off(), UnknownAttempts: d.Unknown,
		}
		if d.Kind == usage.Differs || d.Kind == usage.NotInLedger {
			shown.Export = showSide(d.Export)
		}
		if d.Kind != usage.NotInLedger {
			shown.Ledger = showSide(d.Ledger)
		}
		out.Differences = append(out.Differences, shown)
	}
	for _, u := range unknown {
		out.Unknown = append(out.Unknown, unknownUsage{u.TaskID, u.Attempt, cli.Time(u.StartedAt), u.Model})
	}
	return out
}

func showSide(s usage.Side) *usageSide {
	out := usageSide{InputTokens: s.InputTokens, OutputTokens: s.OutputTokens}
	if s.Requests >= 0 {
		out.Requests = &s.Requests
	}
	if s.CachedInputTokens >= 0 {
		out.CachedInputTokens = &s.CachedInputTokens
	}
	if s.Unpriced == 0 {
		out.Amount = tasks.Dollars(s.PicoUSD)
	}
	return &out
}

var differenceColumns = []cli.Column[usageDiffers]{
	{Title: "DIFFERENCE", Text: func(d usageDiffers) string { return string(d.Kind) }},
	{Title: "DAY", Text: func(d usageDiffers) string { return d.Day }},
	{Title: "MODEL", Text: func(d usageDiffers) string { return d.Model }},
	{Title: "REQUEST", Text: func(d usageDiffers) string { return d.RequestID }},
	{Title: "TASK", Text: func(d usageDiffers) string {
		if d.Task == uuid.Nil {
			return ""
		}
		return fmt.Sprintf("%s #%d", d.Task, d.Attempt)
	}},
	{Title: "EXPORT", Text: func(d usageDiffers) string { return sideText(d.Export) }},
	{Title: "LEDGER", Text: func(d usageDiffers) string { return sideText(d.Ledger) }},
	{Title: "OFF", Text: func(d usageDiffers) string { return cli.Number(d.OffTokens) }},
	{Title: "UNKNOWN", Text: func(d usageDiffers) string {
		if d.UnknownAttempts == 0 {
			return ""
		}
		return cli.Number(d.UnknownAttempts)
	}},
}

// sideText is short: requests, input (of it cached) and output.
func sideText(s *usageSide) string {
	if s == nil {
		return ""
	}
	text := ""
	if s.Requests != nil {
		text = fmt.Sprintf("%d: ", *s.Requests)
	}
	text += cli.Number(s.InputTokens)
	if s.CachedInputTokens != nil {
		text += fmt.Sprintf(" (%d cached)", *s.CachedInputTokens)
	}
	return text + " in, " + cli.Number(s.OutputTokens) + " out"
}

// showReconciliation writes the whole as one document, or the differences as a list and the rest for a person.
func (a *app) showReconciliation(f cli.Format, r reconciliation) error {
	switch f {
	case cli.JSON, cli.YAML, cli.JSONL:
		return cli.One(a.Out, f, r, nil)
	}
	if err := cli.List(a.Out, f, "differences", r.Differences, differenceColumns); err != nil {
		return err
	}
	a.note("%s to %s, by %s", r.From, r.To, r.By)
	a.note("export: %s", sideText(&r.Export))
	a.note("ledger: %s", sideText(&r.Ledger))
	if r.LeftOut > 0 {
		a.note("%d more differences are left out", r.LeftOut)
	}
	for i, u := range r.Unknown {
		if i == 20 && f != cli.Wide {
			a.note("and more attempts that may have been charged; -o wide and json show up to %d", maxUnknown)
			break
		}
		a.note("unknown: task %s, attempt %d, began %s, %s", u.Task, u.Attempt, u.StartedAt, u.Model)
	}
	return nil
}

func (r *reconcile) exceeded(report usage.Report) error {
	differences := len(report.Differences) + report.LeftOut
	return fmt.Errorf("%d differences, by %d tokens in all; %d are tolerated", differences, report.Off, r.tolerance)
}

func (r *reconcile) hint(unknown int) string {
	if unknown > 0 {
		return "attempts of which nothing was heard are listed as unknown: they may explain what only the export has"
	}
	return "usage of the same key by others is in the export, too; calls that ran over midnight may be of another day there"
}
