package httpapi

import (
	"encoding/json"

	"github.com/fencepost/fencepost/tasks"
)

// EncodeTask is the JSON of a task as the API answers it, so that whatever else prints tasks uses the same names.
func EncodeTask(t tasks.Task) ([]byte, error) { return json.Marshal(viewTask(t)) }

// EncodeAttempts is the JSON of a task's ledger as the API answers it: a list.
func EncodeAttempts(attempts []tasks.Attempt) ([]byte, error) {
	return json.Marshal(viewAttempts(attempts).Attempts)
}

// EncodeSpend is the JSON of a sum as the API answers it, under its key.
func EncodeSpend(by tasks.SpendBy, r tasks.SpendRow) ([]byte, error) {
	return json.Marshal(viewSpendRow(by, r))
}

// EncodeSpendTotal is the JSON of a sum of sums as the API answers it.
func EncodeSpendTotal(s tasks.Spend) ([]byte, error) { return json.Marshal(viewSpendSum(s)) }
