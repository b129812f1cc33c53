package sim

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/e2e/history"
	"github.com/fencepost/fencepost/offsets"
)

const brokers = 3

func (w *world) startCluster() (err error) {
	w.cluster, err = kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(9092, 9093, 9094), kfake.ListenFn(w.net.Listen),
		kfake.SeedTopics(w.plan.partitions, topic), kfake.SeedTopics(1, deadLetter),
		kfake.BrokerConfigs(map[string]string{
			"group.consumer.session.timeout.ms":    strconv.FormatInt(w.plan.session.Milliseconds(), 10),
			"group.consumer.heartbeat.interval.ms": "1000",
		}))
	if err != nil {
		return err
	}
	id := w.cluster.TopicInfo(topic).TopicID
	w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1,
		When: func(r kmsg.Request) bool {
			for _, t := range r.(*kmsg.OffsetCommitRequest).Topics {
				if t.Topic == topic || t.TopicID == id {
					w.onWire(t.Partitions)
				}
			}
			return true
		},
	})
	return nil
}

// onWire notes a commit that a broker has received and not yet carried out.
func (w *world) onWire(partitions []kmsg.OffsetCommitRequestTopicPartition) {
	for _, p := range partitions {
		e := history.Event{Proc: "broker", Op: history.Wire, Type: history.Invoke, Partition: p.Partition, Offset: p.Offset}
		if p.Metadata != nil {
			runs, _ := offsets.DecodeRuns(p.Offset, *p.Metadata)
			for _, r := range runs {
				e.Ahead = append(e.Ahead, history.Span{From: r.From, To: r.To})
			}
		}
		if len(e.Ahead) > 0 {
			w.rec.count("commit with records ahead")
		}
		w.rec.add(e)
	}
}

// observe reads both topics until ctx ends, as nobody of the group: what was written where, and when.
func (w *world) observe(ctx context.Context) {
	start := map[string]map[int32]kgo.Offset{topic: {}, deadLetter: {0: kgo.NewOffset().AtStart()}}
	for p := range w.plan.partitions {
		start[topic][p] = kgo.NewOffset().AtStart()
	}
	observer := newProc("observer", w.seed, w.net)
	client, err := kgo.NewClient(append(observer.kafka(w.cluster.ListenAddrs()), kgo.ConsumePartitions(start), kgo.FetchMaxWait(time.Second))...)
	if err != nil {
		panic(err)
	}
	w.all.Go(func() {
		defer client.Close()
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if r.Topic == deadLetter {
					w.rec.addThen(deadLettered(w.rec.began, r))
					w.rec.count("dead letter")
					return
				}
				w.rec.addThen(recorded(w.rec.began, r))
			})
		}
	})
}

func recorded(began time.Time, r *kgo.Record) history.Event {
	var v struct {
		Task      string `json:"task"`
		Workspace string `json:"workspace"`
	}
	_ = json.Unmarshal(r.Value, &v) // what is no pointer points at no task
	return history.Event{
		T: r.Timestamp.Sub(began), Proc: "broker", Op: history.Record, Type: history.OK,
		Partition: r.Partition, Offset: r.Offset, Task: v.Task, Note: v.Workspace,
	}
}

func deadLettered(began time.Time, r *kgo.Record) history.Event {
	e := history.Event{T: r.Timestamp.Sub(began), Proc: "broker", Op: history.DeadLetter, Type: history.OK}
	for _, h := range r.Headers {
		n, _ := strconv.ParseInt(string(h.Value), 10, 64)
		switch h.Key {
		case "fencepost-dlq-partition":
			e.Partition = int32(n)
		case "fencepost-dlq-offset":
			e.Offset = n
		}
	}
	return e
}
