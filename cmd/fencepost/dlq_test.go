package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/deadletter"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/tasks"
)

const (
	knownTask   = "0190163d-8694-739b-aea5-966c26f8ad91"
	unknownTask = "0190163d-8694-739b-aea5-966c26f8ad92"
)

// deadLetters is a broker with a topic and five dead letters: two that point at tasks, one that is no pointer, one whose
// content was left out, and one that somebody else wrote.
func deadLetters(t *testing.T) (*kfake.Cluster, node.Kafka) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	k := node.Kafka{Brokers: cluster.ListenAddrs(), Topic: "reply-tasks", Group: "fencepost"}
	if _, err := node.CreateTopics(t.Context(), k, 2, 1, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	keepForEver(t, k)
	written := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	pointer := func(task string) []byte { return []byte(`{"v":1,"task":"` + task + `","workspace":"acme"}`) }
	for i, l := range []struct {
		reason, key string
		value       []byte
		omitted     string
	}{
		{"unknown_task", "acme/c1", pointer(unknownTask), ""},
		{"unknown_task", "acme/c2", pointer(knownTask), ""},
		{"unreadable", "acme/c3", []byte("\xff\x00not a pointer"), ""},
		{"unreadable", "", nil, "a key of 7 and a value of 2000000 bytes"},
		{"", "theirs", []byte("hello\tthere"), ""},
	} {
		r := &kgo.Record{Topic: k.DLQ(), Value: l.value, Timestamp: written.Add(time.Duration(i) * time.Minute)}
		if l.key != "" {
			r.Key = []byte(l.key)
		}
		if l.reason != "" {
			for name, value := range map[string]string{
				"reason": l.reason, "topic": k.Topic, "partition": "1", "offset": fmt.Sprint(40 + i), "time": "2026-11-01T07:00:00.5Z",
			} {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: "fencepost-dlq-" + name, Value: []byte(value)})
			}
		}
		if l.omitted != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "fencepost-dlq-omitted", Value: []byte(l.omitted)})
		}
		produceAll(t, k, r)
	}
	return cluster, k
}

// keepForEver: the goldens hold the letters' times, and retention would go by them.
func keepForEver(t *testing.T, k node.Kafka) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	forever := "-1"
	if _, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &forever}}, k.DLQ()); err != nil {
		t.Fatal(err)
	}
}

func produceAll(t *testing.T, k node.Kafka, r ...*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), r...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// onKafka runs one command line in this process.
func onKafka(t *testing.T, k node.Kafka, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	env := map[string]string{"FENCEPOST_KAFKA_BROKERS": k.Address()}
	err := execute(t.Context(), &cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e, LookupEnv: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}, args)
	cli.Report(&e, err)
	return o.String(), e.String(), cli.ExitCode(err)
}

// headersBlock varies with a map's order.
var headersBlock = regexp.MustCompile(`(?s),\n  "headers": \[.*\]`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("FENCEPOST_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestDeadLettersAreListedAndShown(t *testing.T) {
	_, k := deadLetters(t)
	for _, f := range []string{"table", "wide", "json"} {
		out, errs, code := onKafka(t, k, "dlq", "list", "-o", f)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit code %d, %s", f, code, errs)
		}
		golden(t, "dlq."+f, out)
	}
	out, _, _ := onKafka(t, k, "deadletters", "list", "--reason", "unreadable", "--limit", "1", "-o", "jsonl")
	if !strings.Contains(out, `"letter":"0:3"`) || strings.Count(out, "\n") != 1 {
		t.Errorf("the newest unreadable one is\n%s", out)
	}
	if out, _, code := onKafka(t, k, "dlq", "list", "--since", "1h", "-o", "json"); code != 0 || !strings.Contains(out, `"letters": []`) {
		t.Errorf("exit code %d, written within an hour:\n%s", code, out)
	}
	out, errs, code := onKafka(t, k, "dlq", "show", "0:2", "-o", "json")
	if code != 0 || !strings.Contains(out, `"base64": "/wBub3QgYSBwb2ludGVy"`) || !strings.Contains(out, `"key": "fencepost-dlq-reason"`) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	golden(t, "dlq-show.json", headersBlock.ReplaceAllString(out, ""))
	if out, _, _ = onKafka(t, k, "dlq", "show", "0:4"); !strings.Contains(out, "hello there") {
		t.Errorf("a tab breaks the table:\n%s", out)
	}
}

func TestDeadLetterErrors(t *testing.T) {
	_, k := deadLetters(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"show", "0:99"}, cli.Failed, "there is no such letter"},
		{[]string{"show", "7:0"}, cli.Failed, "there is no such letter"},
		{[]string{"show", "zero"}, cli.Misuse, `"zero" is no letter`},
		{[]string{"show"}, cli.Misuse, "LETTER is missing"},
		{[]string{"list", "--kafka-topic", "nosuch"}, cli.Failed, "fencepost topics create"},
		{[]string{"list", "--reason", "weather"}, cli.Misuse, "supported: any, unreadable, unknown_task"},
		{[]string{"list", "--limit", "0"}, cli.Misuse, "--limit: 0"},
		{[]string{"list", "--kafka-brokers", "127.0.0.1:1", "--timeout", "1s"}, cli.Failed, "Hint: check --kafka-brokers"},
		{[]string{"requeue"}, cli.Misuse, "either letters or --all"},
		{[]string{"requeue", "0:1", "--all"}, cli.Misuse, "either letters or --all"},
		{[]string{"requeue", "0:1", "--reason", "unreadable"}, cli.Misuse, "are for --all"},
		{[]string{"requeue", "0:1", "--execute"}, cli.Misuse, "Hint: add --yes"},
	} {
		out, errs, code := onKafka(t, k, append([]string{"dlq"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit code %d, want %d\n%s", c.args, code, c.code, errs)
		}
		if c.code == cli.Misuse && out != "" {
			t.Errorf("%v: a usage error printed %q", c.args, out)
		}
	}
}

// inTopic are the records of the topic, read once so many are there.
func inTopic(t *testing.T, k node.Kafka, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers...), kgo.ConsumeTopics(k.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var list []*kgo.Record
	for len(list) < n && ctx.Err() == nil {
		list = append(list, client.PollFetches(ctx).Records()...)
	}
	return list
}

func TestRequeueWritesNothingUntilItIsTold(t *testing.T) {
	cluster, k := deadLetters(t)
	produced := 0
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produced++
		return nil, nil, false
	})
	out, errs, code := onKafka(t, k, "dlq", "requeue", "--all", "-o", "json")
	if code != 0 || produced != 0 {
		t.Fatalf("exit code %d, %d produced: %s", code, produced, errs)
	}
	golden(t, "dlq-requeue.json", out)
	out, _, _ = onKafka(t, k, "dlq", "requeue", "--all")
	golden(t, "dlq-requeue.table", out)

	out, errs, code = onKafka(t, k, "dlq", "requeue", "--all", "--execute", "--yes", "-o", "json")
	var v struct{ Requeue, Skip, Requeued int }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Requeue != 2 || v.Requeued != 2 || v.Skip != 3 {
		t.Fatalf("exit code %d %+v %v\n%s%s", code, v, err, out, errs)
	}
	list := inTopic(t, k, 2)
	if len(list) != 2 {
		t.Fatalf("%d records came back, want 2", len(list))
	}
	for _, r := range list {
		if want := `{"v":1,"task":"` + map[string]string{"acme/c1": unknownTask, "acme/c2": knownTask}[string(r.Key)] + `","workspace":"acme"}`; string(r.Value) != want {
			t.Errorf("key %s value %s, want %s", r.Key, r.Value, want)
		}
		if len(r.Headers) != 1 || r.Headers[0].Key != deadletter.HeaderFrom || !strings.HasPrefix(string(r.Headers[0].Value), k.DLQ()+"/0/") {
			t.Errorf("headers %v", r.Headers)
		}
		// The same partition as the dispatcher's record of the key: the conversation's order goes by it.
		if want := int32(kgo.StickyKeyPartitioner(nil).ForTopic(k.Topic).Partition(r, 2)); r.Partition != want {
			t.Errorf("key %s is in partition %d, want %d", r.Key, r.Partition, want)
		}
	}
}

// TestRequeueCountsWhatIsAcknowledged: a letter that the brokers refuse is not put back, and those after it are not tried.
func TestRequeueCountsWhatIsAcknowledged(t *testing.T) {
	cluster, k := deadLetters(t)
	produced := 0
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if produced++; produced == 1 {
			return nil, nil, false
		}
		r := req.(*kmsg.ProduceRequest)
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range r.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, 10 // MESSAGE_TOO_LARGE
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	out, errs, code := onKafka(t, k, "dlq", "requeue", "0:0", "0:1", "0:2", "--unreadable", "--execute", "--yes", "--timeout", "5s")
	if code != cli.Partly || !strings.Contains(out, "1 of 3 put back") || !strings.Contains(errs, "1 of 3 letters were put back") {
		t.Errorf("exit code %d, want %d\n%s%s", code, cli.Partly, out, errs)
	}
	if list := inTopic(t, k, 1); len(list) != 1 || string(list[0].Key) != "acme/c1" {
		t.Errorf("in the topic: %v", list)
	}
}

// watched is a store that knows some tasks.
type watched []tasks.Progress

func (w watched) Progress(context.Context, []uuid.UUID) ([]tasks.Progress, error) { return w, nil }

func TestWhatIsPutBackDependsOnTheTask(t *testing.T) {
	letter := func(task string) deadletter.Letter { return deadletter.Letter{Task: task, Workspace: "acme"} }
	for status, want := range map[tasks.Status]deadletter.Verdict{
		tasks.StatusQueued: deadletter.Requeue, tasks.StatusRunning: deadletter.Requeue,
		tasks.StatusCompleted: deadletter.Finished, tasks.StatusFailed: deadletter.Finished, tasks.StatusCancelled: deadletter.Finished,
	} {
		list := []deadletter.Letter{letter(knownTask), letter(unknownTask), {Omitted: "much"}, {}}
		store := watched{{TaskID: uuid.MustParse(knownTask), Workspace: "acme", Status: status},
			{TaskID: uuid.MustParse(unknownTask), Workspace: "somebody-else", Status: status}}
		if err := askTasks(t.Context(), store, list); err != nil {
			t.Fatal(err)
		}
		view, todo := planRequeue("d", "t", list, false)
		got := []deadletter.Verdict{}
		for _, l := range view.Letters {
			got = append(got, l.Will)
		}
		if diff := cmp.Diff([]deadletter.Verdict{want, deadletter.Missing, deadletter.Omitted, deadletter.Unreadable}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", status, diff)
		}
		if len(todo) != view.Requeue || view.Requeue+view.Skip != len(list) {
			t.Errorf("%s: %d to do, %d and %d of %d counted", status, len(todo), view.Requeue, view.Skip, len(list))
		}
	}
}
