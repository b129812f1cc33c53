package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
)

// TestDoctorShows: the forms are a contract; fields and columns are only added.
func TestDoctorShows(t *testing.T) {
	report := doctor.Report{State: doctor.Fail, Checks: []doctor.Check{
		{Part: "kafka", Name: "topic", State: doctor.OK, Finding: "reply-tasks: 12 partition(s)"},
		{Part: "kafka", Name: "cleanup.policy", State: doctor.Fail, Finding: "compact", Change: "set it to <delete>"},
	}}
	for format, want := range map[cli.Format]string{
		cli.Table: `PART   CHECK           STATE  FINDING
kafka  topic           ok     reply-tasks: 12 partition(s)
kafka  cleanup.policy  fail   compact
CHANGE kafka cleanup.policy (fail): set it to <delete>
`,
		cli.JSON: `{
  "state": "fail",
  "checks": [
    {
      "part": "kafka",
      "check": "topic",
      "state": "ok",
      "finding": "reply-tasks: 12 partition(s)"
    },
    {
      "part": "kafka",
      "check": "cleanup.policy",
      "state": "fail",
      "finding": "compact",
      "change": "set it to <delete>"
    }
  ]
}
`,
		cli.JSONL: `{"part":"kafka","check":"topic","state":"ok","finding":"reply-tasks: 12 partition(s)"}
{"part":"kafka","check":"cleanup.policy","state":"fail","finding":"compact","change":"set it to <delete>"}
`,
		cli.YAML: `state: fail
checks:
  - part: kafka
    check: topic
    state: ok
    finding: 'reply-tasks: 12 partition(s)'
  - part: kafka
    check: cleanup.policy
    state: fail
    finding: compact
    change: set it to <delete>
`,
	} {
		var out bytes.Buffer
		if err := showDoctor(&app{Streams: &cli.Streams{Out: &out}}, format, report); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestDoctorExitCode(t *testing.T) {
	for state, code := range map[doctor.State]int{doctor.OK: cli.OK, doctor.Unknown: cli.OK, doctor.Warn: cli.OK, doctor.Fail: cli.Failed} {
		if got := cli.ExitCode(judgeReport(doctor.Report{State: state, Checks: []doctor.Check{{State: doctor.OK}, {State: state}}})); got != code {
			t.Errorf("%s: exit code %d, want %d", state, got, code)
		}
	}
}
