package llm

import (
	"fmt"
	"slices"
	"strings"
)

// streamClass are the errors that mean, before any output, that the model did not run.
var streamClass = map[string]Class{
	"429": RateLimited, "rate_limit_error": RateLimited, "rate_limit_exceeded": RateLimited,
	"529": Overloaded, "overloaded_error": Overloaded, "slow_down": Overloaded,
}

// RefusedInStream classifies an error that came behind a 2xx status, as an event or as the body. output says whether any
// part of the answer had come before it: then it has been paid for, whatever the error is.
func RefusedInStream(event []byte, status int, output bool, report Report, hide ...string) *Failure {
	said := DecodeError(event)
	f := &Failure{Class: Ambiguous, Status: status, Report: report, Message: fmt.Sprintf("status %d with an error", status)}
	if !output {
		for _, word := range [...]string{said.Code, said.Type} {
			if c, ok := streamClass[word]; ok {
				f.Class = c
				break
			}
		}
		if quota(429, said) {
			f.Class = Quota
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
