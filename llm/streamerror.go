package llm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// streamStatus are the errors that mean, before any output, what a status would have meant. A code that is a status is one:
// gateways commit to 200 before they ask anybody.
var streamStatus = map[string]int{
	"rate_limit_error": 429, "rate_limit_exceeded": 429, "overloaded_error": 529, "slow_down": 529, "503": 529,
}

// RefusedInStream classifies an error that came behind a 2xx status, as an event or as the body. output says whether any
// part of the answer had come before it: then it has been paid for, whatever the error is.
func RefusedInStream(event []byte, status int, output bool, report Report, hide ...string) *Failure {
	said := DecodeError(event)
	f := &Failure{Class: Ambiguous, Status: status, Report: report, Message: fmt.Sprintf("status %d with an error", status)}
	if !output {
		for _, word := range [...]string{said.Code, said.Type} {
			status := streamStatus[word]
			if status == 0 {
				status, _ = strconv.Atoi(word)
			}
			if status >= 400 && status <= 599 {
				f.Class, f.Config = classOf(status)
				break
			}
		}
		if quota(429, said) {
			f.Class, f.Config = Quota, false
		}
	}
	for _, word := range slices.Compact([]string{said.Type, said.Code}) {
		if l := label(word); l != "" {
			f.Message += " " + l
		}
	}
	if said.Message != "" {
		f.Message += ": " + Extract(strings.TrimSpace(said.Message), hide...)
	}
	return f
}
