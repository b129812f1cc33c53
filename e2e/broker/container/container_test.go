package container

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/e2e/broker"
)

// These tests want a container when FENCEPOST_TEST_KAFKA_MODE=container says so, as .ci/run does. On a machine without
// a Docker engine the same tests run on the jars: what is promised is the same.
func TestMain(m *testing.M) { os.Exit(broker.Main(m).Run()) }

func TestABrokerIsPausedKilledStoppedAndComesBackWithItsData(t *testing.T) {
	b := broker.Start(t, broker.Config("offset.metadata.max.bytes", "100"))
	topic := broker.Topic(t, b, 2)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	produce := func(value string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce("first")
	b.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := admin.ListBrokers(ctx); err == nil {
		t.Error("a paused broker answered")
	}
	b.Resume()
	produce("resumed")
	b.Kill()
	b.Restart()
	produce("after kill")
	b.Stop()
	b.Restart()
	produce("after stop")

	ends, err := admin.ListEndOffsets(t.Context(), topic)
	if err != nil || ends.Error() != nil {
		t.Fatal(err, ends.Error())
	}
	var records int64
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
	if records != 4 {
		t.Errorf("%d records, want 4", records)
	}
}

func TestTheSharedBrokerServes(t *testing.T) {
	b := broker.Shared(t)
	if again := broker.Shared(t); again.Addrs[0] != b.Addrs[0] {
		t.Fatalf("two shared brokers: %v and %v", b.Addrs, again.Addrs)
	}
	broker.Topic(t, b, 1)
}

func TestEnvironmentNamesSettingsAsConfluentsImagesDo(t *testing.T) {
	got := environment(map[string]string{"a.b_c-d": "x"})
	if got["KAFKA_A_B__C___D"] != "x" || len(got) != 1 {
		t.Errorf("environment is %v", got)
	}
}
