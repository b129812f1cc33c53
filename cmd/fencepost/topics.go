package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
)

func newTopics(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "topics", Short: "Manage the topics in Kafka"}, newTopicsCreate(a))
}

func newTopicsCreate(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create the topic and its dead-letter topic where they are missing",
		Long: `Create the topic and its dead-letter topic (TOPIC.dlq) where they are missing, with settings that fit. A topic that
exists is left as it is. The number of partitions bounds how many workers can share the work, and cannot be raised
later without moving conversations to other partitions.`,
		Example: "  fencepost topics create --kafka-brokers localhost:9092\n  fencepost topics create --partitions 48 --replication-factor 3",
		Args:    arguments(),
	}
	var kafka kafkaSettings
	settingsFor(cmd, kafka.flags)
	partitions := cmd.Flags().Int32("partitions", node.DefaultPartitions, "partitions of the topic")
	replicas := cmd.Flags().Int16("replication-factor", -1, "copies of each partition; -1 is the brokers' default")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		k, err := kafka.read(a)
		if err != nil {
			return err
		}
		if *partitions < 1 || *partitions > 10_000 {
			return cli.Usage("", "--partitions: %d is not within 1 and 10000", *partitions)
		}
		if *replicas != -1 && *replicas < 1 {
			return cli.Usage("", "--replication-factor: %d is neither -1 nor at least 1", *replicas)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
		defer cancel()
		list, err := node.CreateTopics(ctx, k, *partitions, *replicas, a.logger(cmd))
		if err != nil {
			return cli.Fail("check --kafka-brokers, that the broker runs, and that its advertised listeners are reachable from here",
				"Kafka at %s: %w", k.Address(), err)
		}
		for _, t := range list {
			if t.Name == k.Topic && !t.Created && t.Partitions != int(*partitions) && cmd.Flags().Changed("partitions") {
				a.note("Note: topic %s exists with %d partitions and was left so", t.Name, t.Partitions)
			}
		}
		return cli.List(a.Out, *output, "topics", list, []cli.Column[node.Topic]{
			{Title: "TOPIC", Text: func(t node.Topic) string { return t.Name }},
			{Title: "PARTITIONS", Text: func(t node.Topic) string { return cli.Number(t.Partitions) }},
			{Title: "REPLICAS", Text: func(t node.Topic) string { return cli.Number(t.Replicas) }},
			{Title: "STATUS", Text: func(t node.Topic) string {
				if t.Created {
					return "created"
				}
				return "exists"
			}},
		})
	}
	return cmd
}
