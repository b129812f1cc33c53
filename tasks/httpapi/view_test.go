package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/tasks"
)

// What the attempt that brought another one's answer says, and what was sent of the conversation.
func TestViewOfRecoveryAndHistory(t *testing.T) {
	b, err := EncodeAttempts([]tasks.Attempt{
		{Number: 1, Version: 3},
		{Number: 2, Version: 5, Call: tasks.Call{Recovered: 3, HistoryTurns: 4, HistoryDropped: 2, PicoUSD: new(int64)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var attempts []map[string]any
	if err := json.Unmarshal(b, &attempts); err != nil {
		t.Fatal(err)
	}
	history, _ := attempts[1]["history"].(map[string]any)
	if attempts[1]["recovered_from"] != 1.0 || history["turns"] != 4.0 || history["dropped"] != 2.0 || attempts[1]["amount"] != "0" {
		t.Errorf("%v", attempts[1])
	}
	for _, name := range []string{"recovered_from", "history"} {
		if v, has := attempts[0][name]; has {
			t.Errorf("%s is %v of an attempt that has none", name, v)
		}
	}
	task, err := EncodeTask(tasks.Task{HistoryTurns: 4, HistoryDropped: 2, PromptTemplate: "p"})
	if err != nil || !strings.Contains(string(task), `"prompt_template":"p","history":{"turns":4,"dropped":2}`) {
		t.Errorf("%s, %v", task, err)
	}
	if task, err := EncodeTask(tasks.Task{}); err != nil || strings.Contains(string(task), "history") || strings.Contains(string(task), "template") {
		t.Errorf("%s, %v", task, err)
	}
}
