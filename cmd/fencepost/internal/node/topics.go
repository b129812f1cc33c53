package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// DefaultPartitions of the topic.
const DefaultPartitions = 12

// Topic is what CreateTopics did about one topic.
type Topic struct {
	Name       string `json:"topic"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Created    bool   `json:"created"`
}

const day = 24 * time.Hour

// CreateTopics makes the topic and the one for its dead letters where they are missing, and tells what is there. A
// replication factor of -1 is the brokers' own default.
//
// Records point at tasks and are worthless once those have ended, so a week is kept, to have something to look back at;
// dead letters stay for a month, since people look at them.
func CreateTopics(ctx context.Context, k Kafka, partitions int32, replicas int16, log *slog.Logger) ([]Topic, error) {
	client, err := k.Client(log)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	value := func(s string) *string { return &s }
	keep := func(d time.Duration) *string { return value(strconv.FormatInt(d.Milliseconds(), 10)) }

	var list []Topic
	for _, t := range []struct {
		name       string
		partitions int32
		config     map[string]*string
	}{
		{k.Topic, partitions, map[string]*string{"cleanup.policy": value("delete"), "retention.ms": keep(7 * day)}},
		{k.DLQ(), 1, map[string]*string{"cleanup.policy": value("delete"), "retention.ms": keep(30 * day)}},
	} {
		if replicas >= 3 {
			t.config["min.insync.replicas"] = value("2")
		}
		_, err := admin.CreateTopic(ctx, t.partitions, replicas, t.config, t.name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return list, fmt.Errorf("create topic %s: %w", t.name, err)
		}
		list = append(list, Topic{Name: t.name, Created: err == nil})
	}
	// A new topic is known everywhere a moment later.
	for {
		details, err := admin.ListTopics(ctx, k.Topic, k.DLQ())
		if err != nil {
			return list, fmt.Errorf("look up the topics: %w", err)
		}
		known := 0
		for i := range list {
			d := details[list[i].Name]
			if d.Err != nil || len(d.Partitions) == 0 {
				continue
			}
			known++
			list[i].Partitions, list[i].Replicas = len(d.Partitions), d.Partitions.NumReplicas()
		}
		if known == len(list) {
			return list, nil
		}
		select {
		case <-ctx.Done():
			return list, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// checkTopics is nil, or says which topic is missing.
func checkTopics(ctx context.Context, admin *kadm.Client, k Kafka) error {
	details, err := admin.ListTopics(ctx, k.Topic, k.DLQ())
	if err != nil {
		return err
	}
	for _, name := range []string{k.Topic, k.DLQ()} {
		d := details[name]
		if errors.Is(d.Err, kerr.UnknownTopicOrPartition) || d.Err == nil && len(d.Partitions) == 0 {
			return &Problem{Kind: ErrNotReady, Text: fmt.Sprintf("Kafka at %s has no topic %q", k.Address(), name),
				Hint: "fencepost topics create" + k.flags()}
		}
		if d.Err != nil {
			return fmt.Errorf("topic %s: %w", name, d.Err)
		}
	}
	return nil
}

// flags repeats what differs from the defaults, for a hint that can be pasted.
func (k Kafka) flags() string {
	s := " --kafka-brokers " + k.Address()
	if k.Topic != "reply-tasks" {
		s += " --kafka-topic " + k.Topic
	}
	return s
}
