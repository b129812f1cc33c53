package main

import (
	"testing"

	"github.com/fencepost/fencepost/tasks"
)

func TestLedgerAndHistoryOnOneLine(t *testing.T) {
	attempts := []tasks.Attempt{
		{Number: 1, Version: 3, Outcome: tasks.AttemptUnknown}, {Number: 2, Version: 4, Outcome: tasks.AttemptFailed, FailureClass: "ambiguous"},
		{Number: 3, Version: 7, Outcome: tasks.AttemptAccepted, Call: tasks.Call{Recovered: 3}},
	}
	if got, want := ledger(attempts), "#1 unknown, #2 failed (ambiguous), #3 accepted with the answer of #1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for want, task := range map[string]tasks.Task{
		"": {}, "3 turns": {HistoryTurns: 3}, "3 turns, 40 left out": {HistoryTurns: 3, HistoryDropped: 40}, "0 turns, 1 left out": {HistoryDropped: 1},
	} {
		if got := history(task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
