package consumer

import (
	"slices"
	"testing"

	"github.com/fencepost/fencepost/offsets"
)

func TestBegin(t *testing.T) {
	type runs = []offsets.Run
	spans := func(bounds ...int64) (r runs) {
		for i := 0; i < len(bounds); i += 2 {
			r = append(r, offsets.Run{From: bounds[i], To: bounds[i+1]})
		}
		return r
	}
	for name, tc := range map[string]struct {
		settled runs
		log     logRange
		at      int64
		ahead   runs
		event   string
	}{
		"committed":                   {spans(0, 40), logRange{0, 100}, 40, nil, ""},
		"committed, settled ahead":    {spans(0, 40, 50, 60), logRange{0, 100}, 40, spans(50, 60), ""},
		"committed at the end":        {spans(0, 100), logRange{0, 100}, 100, nil, ""},
		"committed at the start":      {spans(0, 40), logRange{40, 100}, 40, nil, ""},
		"no commit":                   {nil, logRange{7, 100}, 7, nil, beginNoCommit},
		"no commit, runs stored":      {spans(50, 60), logRange{7, 100}, 7, spans(50, 60), beginNoCommit},
		"below the start":             {spans(0, 40, 80, 90), logRange{70, 100}, 70, spans(80, 90), beginBelowStart},
		"below the start, in a run":   {spans(0, 40, 60, 90), logRange{70, 100}, 90, nil, beginBelowStart},
		"below the start of an empty": {spans(0, 40), logRange{70, 70}, 70, nil, beginBelowStart},
		"beyond the end":              {spans(0, 140, 150, 160), logRange{10, 100}, 10, nil, beginBeyondEnd},
		"run beyond the end":          {spans(0, 40, 90, 120), logRange{0, 100}, 40, nil, ""},
		"the log cannot be read":      {spans(0, 40, 50, 60), logRange{0, -1}, 40, spans(50, 60), beginUnknown},
		"nothing is known":            {nil, logRange{0, -1}, -1, nil, beginUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			at, ahead, event := begin(slices.Clone(tc.settled), tc.log)
			if at != tc.at || event != tc.event || !slices.Equal(ahead, tc.ahead) {
				t.Errorf("begin = %d, %v, %q; want %d, %v, %q", at, ahead, event, tc.at, tc.ahead, tc.event)
			}
		})
	}
}
