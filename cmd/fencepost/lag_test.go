package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/offsets/lag"
)

// behind is a broker with a group that is behind: of partition 0 it has settled 0, 1 and 3 of 5 records, of partition 1
// everything, of partition 2 nothing.
func behind(t *testing.T) (addr string) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "reply-tasks"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("reply-tasks"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for partition, n := range []int{5, 2, 1} {
		for range n {
			r := &kgo.Record{
				Partition: int32(partition), Timestamp: time.Now().Add(-time.Hour),
				Value: []byte(`{"v":1,"task":"0190163d-8694-739b-aea5-966c26f8ad91","workspace":"acme"}`),
			}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var commits kadm.Offsets
	commits.Add(kadm.Offset{Topic: "reply-tasks", Partition: 0, At: 2, LeaderEpoch: -1, Metadata: offsets.EncodeRuns(2, []offsets.Run{{From: 3, To: 4}}, 4096)})
	commits.Add(kadm.Offset{Topic: "reply-tasks", Partition: 1, At: 2, LeaderEpoch: -1})
	if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), "fencepost", commits); err != nil {
		t.Fatal(err)
	}
	return cluster.ListenAddrs()[0]
}

func lagOf(ctx context.Context, addr string, out io.Writer, args ...string) (code int, stderr string) {
	var errs bytes.Buffer
	streams := &cli.Streams{In: strings.NewReader(""), Out: out, Err: &errs, LookupEnv: func(name string) (string, bool) {
		if name == "FENCEPOST_KAFKA_BROKERS" {
			return addr, true
		}
		return "", false
	}}
	err := execute(ctx, streams, append([]string{"lag"}, args...))
	cli.Report(&errs, err)
	return cli.ExitCode(err), errs.String()
}

// moving is what differs from run to run: ages, times and whatever the reading of them leads to.
var moving = regexp.MustCompile(`\b36\d\d(\.\d+)?\b|20\d\d-[0-9T:.-]+Z`)

func TestLagGoldens(t *testing.T) {
	addr := behind(t)
	for _, format := range cli.Formats {
		var out bytes.Buffer
		if code, stderr := lagOf(t.Context(), addr, &out, "--window", "0", "--members", "-o", format); code != cli.OK || stderr != "" {
			t.Errorf("%s: exit code %d, %s", format, code, stderr)
		}
		got := moving.ReplaceAllStringFunc(out.String(), func(s string) string {
			if strings.HasPrefix(s, "36") {
				return "AGE"
			}
			return "TIME"
		})
		path := "testdata/lag." + format
		if os.Getenv("FENCEPOST_UPDATE_GOLDENS") != "" {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is\n%s\nwant\n%s", format, got, want)
		}
	}
}

func TestLagExitCodes(t *testing.T) {
	addr := behind(t)
	for _, c := range []struct {
		limit  string
		code   int
		stderr string
	}{
		{"30m", cli.Threshold, "longer than --fail-over 30m0s"}, {"2h", cli.OK, ""}, {"0", cli.OK, ""},
	} {
		var out bytes.Buffer
		code, stderr := lagOf(t.Context(), addr, &out, "--window", "10ms", "--fail-over", c.limit, "-o", "json")
		if code != c.code || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("--fail-over %s: exit code %d, %s", c.limit, code, stderr)
		}
		var r lag.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.TotalLag != 4 {
			t.Errorf("--fail-over %s: it shows %v, %s", c.limit, err, out.String())
		}
	}
}

func TestWhatIsUnknownIsNotWithinALimit(t *testing.T) {
	l := &lagCommand{failOver: time.Hour}
	if code := cli.ExitCode(l.judge(lag.Report{Complete: false})); code != cli.Failed {
		t.Errorf("exit code %d", code)
	}
	if code := cli.ExitCode(l.judge(lag.Report{Complete: false, MaxSeconds: 3601})); code != cli.Threshold {
		t.Errorf("exit code %d", code)
	}
}

// documents ends a watch after so many lines.
type documents struct {
	bytes.Buffer
	left int
	stop func()
}

func (d *documents) Write(b []byte) (int, error) {
	if d.left--; d.left == 0 {
		d.stop()
	}
	return d.Buffer.Write(b)
}

func TestLagWatch(t *testing.T) {
	addr := behind(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &documents{left: 3, stop: cancel}
	if code, stderr := lagOf(ctx, addr, out, "--window", "10ms", "--watch=10ms", "-o", "jsonl"); code != cli.OK || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for line := range strings.Lines(out.String()) {
		var r lag.Report
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.TotalLag != 4 || r.Partitions[0].Status != lag.Stop || r.Partitions[0].Rate != 0 {
			t.Errorf("%v: %s", err, line)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d documents", n)
	}

	out = &documents{left: 100, stop: cancel}
	if code, _ := lagOf(t.Context(), addr, out, "--window", "10ms", "--watch=10ms", "--fail-over", "1m", "-o", "jsonl"); code != cli.Threshold || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("a watch with a limit ends with %d after %s", code, out.String())
	}
}
