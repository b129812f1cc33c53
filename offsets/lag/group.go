package lag

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// group is the state of a group and who is in it.
type group struct {
	state   string
	members []Member
	// settled: every partition that has an owner has it now. While a group rebalances that is not known.
	settled bool
}

// describe asks for the group by both protocols: a broker describes a group of KIP-848 to the older request as one that
// does not exist. A group that nobody knows is "Dead", as Kafka has it, and no error.
func describe(ctx context.Context, admin *kadm.Client, topic, name string) (group, error) {
	classic, err := admin.DescribeGroups(ctx, name)
	if err != nil {
		return group{}, err
	}
	d := classic[name]
	if d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) {
		return group{}, d.Err
	}
	if d.Err == nil && d.State != "Dead" {
		return classicGroup(d, topic), nil
	}
	// Brokers before 4.0 do not know the request; then the first answer stands.
	if modern, err := admin.DescribeConsumerGroups(ctx, name); err == nil && modern[name].Err == nil && modern[name].State != "" {
		return consumerGroup(modern[name], topic), nil
	}
	return group{state: "Dead", settled: true}, nil
}

func classicGroup(d kadm.DescribedGroup, topic string) group {
	g := group{state: d.State, settled: d.State == "Stable" || d.State == "Empty" || d.State == "Dead"}
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

func consumerGroup(d kadm.DescribedConsumerGroup, topic string) group {
	g := group{state: d.State, settled: d.State == "Stable" || d.State == "Empty" || d.State == "Dead"}
	for _, m := range d.Members {
		out := Member{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []int32{}}
		if m.InstanceID != nil {
			out.InstanceID = *m.InstanceID
		}
		for p := range m.Assignment[topic] {
			out.Partitions = append(out.Partitions, p)
		}
		g.add(out)
	}
	return g
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
