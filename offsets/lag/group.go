package lag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// group is the state of a group and who is in it.
type group struct {
	state   string
	members []Member
}

// describe asks for the group by both protocols: a broker describes a group of KIP-848 to the older request as one that
// does not exist. A group that nobody knows is "Dead", as Kafka has it, and no error.
func describe(ctx context.Context, client *kgo.Client, topic kadm.TopicDetail, name string) (group, error) {
	classic, err := kadm.NewClient(client).DescribeGroups(ctx, name)
	if err != nil {
		return group{}, err
	}
	d := classic[name]
	if d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) {
		return group{}, d.Err
	}
	if d.Err == nil && len(d.Members) > 0 {
		return classicGroup(d, topic.Topic), nil
	}
	// Brokers before 4.0 do not know the request, and one that knows the group by the older protocol does not find it;
	// then the first answer stands.
	if g, err := consumerGroup(ctx, client, topic, name); err == nil {
		return g, nil
	}
	if d.Err != nil {
		return group{state: "Dead"}, nil
	}
	return classicGroup(d, topic.Topic), nil
}

func classicGroup(d kadm.DescribedGroup, topic string) group {
	g := group{state: d.State}
	for _, m := range d.Members {
		out := Member{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []int32{}}
		if m.InstanceID != nil {
			out.InstanceID = *m.InstanceID
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				if t.Topic == topic {
					out.Partitions = append(out.Partitions, t.Partitions...)
				}
			}
		}
		g.add(out)
	}
	return g
}

// consumerGroup asks for a group of KIP-848. Its assignments are by topic id, which a topic made again does not share.
func consumerGroup(ctx context.Context, client *kgo.Client, topic kadm.TopicDetail, name string) (group, error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{name}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return group{}, err
	}
	if len(resp.Groups) != 1 {
		return group{}, fmt.Errorf("%d groups are described, want 1", len(resp.Groups))
	}
	d := resp.Groups[0]
	if err := kerr.ErrorForCode(d.ErrorCode); err != nil {
		return group{}, err
	}
	g := group{state: d.State}
	for _, m := range d.Members {
		out := Member{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []int32{}}
		if m.InstanceID != nil {
			out.InstanceID = *m.InstanceID
		}
		for _, t := range m.Assignment.TopicPartitions {
			if t.TopicID == topic.ID {
				out.Partitions = append(out.Partitions, t.Partitions...)
			}
		}
		g.add(out)
	}
	return g, nil
}

func (g *group) add(m Member) {
	slices.Sort(m.Partitions)
	g.members = append(g.members, m)
	slices.SortFunc(g.members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
}

// owner is the member that has a partition.
func (g *group) owner(p int32) (Member, bool) {
	for _, m := range g.members {
		if _, has := slices.BinarySearch(m.Partitions, p); has {
			return m, true
		}
	}
	return Member{}, false
}
