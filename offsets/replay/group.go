package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ActiveError: the group has members, so that its position is theirs.
type ActiveError struct {
	Group   string
	State   string
	Members []string // as an operator would look for them; empty when only the broker's refusal says so
}

// Error names the members.
func (e *ActiveError) Error() string {
	if len(e.Members) == 0 {
		return fmt.Sprintf("group %s is active (%s)", e.Group, e.State)
	}
	return fmt.Sprintf("group %s is active (%s) with %d members: %s", e.Group, e.State, len(e.Members), strings.Join(e.Members, ", "))
}

// group is one consumer group, from outside.
type group struct {
	name  string
	topic string
	admin *kadm.Client
}

// inactive is nil when the group has no member, of either protocol; *ActiveError when it has.
func (g group) inactive(ctx context.Context) error {
	classic, err := g.admin.DescribeGroups(ctx, g.name)
	if err != nil {
		return fmt.Errorf("describe group %s: %w", g.name, err)
	}
	d := classic[g.name]
	active := &ActiveError{Group: g.name, State: d.State}
	for _, m := range d.Members {
		active.Members = append(active.Members, member(m.ClientID, m.ClientHost, m.MemberID, m.InstanceID))
	}
	// A broker tells of a group of the other protocol that it is dead, or not there. One that does not know the other
	// protocol has no such groups.
	if len(d.Members) == 0 && (d.Err != nil || d.State == "Dead" || d.State == "") {
		newer, err := g.admin.DescribeConsumerGroups(ctx, g.name)
		if n, ok := newer[g.name]; err == nil && ok && n.Err == nil {
			active.State = n.State
			for _, m := range n.Members {
				active.Members = append(active.Members, member(m.ClientID, m.ClientHost, m.MemberID, m.InstanceID))
			}
		} else if d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) {
			return fmt.Errorf("describe group %s: %w", g.name, d.Err)
		}
	}
	if len(active.Members) == 0 && slices.Contains([]string{"", "Empty", "Dead"}, active.State) {
		return nil
	}
	return active
}

func member(client, host, id string, instance *string) string {
	s := client + " at " + strings.TrimPrefix(host, "/")
	if instance != nil {
		return s + " (" + *instance + ")"
	}
	return s + " (" + id + ")"
}

// committed reads what the group has committed for partitions. Its offset is -1 where there is nothing.
func (g group) committed(ctx context.Context, partitions []int32) (map[int32]kadm.Offset, error) {
	list, err := g.admin.FetchOffsetsForTopics(ctx, g.name, g.topic)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("read the commits of group %s: %w", g.name, err)
	}
	out := make(map[int32]kadm.Offset, len(partitions))
	for _, p := range partitions {
		o, ok := list.Lookup(g.topic, p)
		switch {
		case !ok || o.Err == nil && o.At < 0:
			out[p] = kadm.Offset{Topic: g.topic, Partition: p, At: -1, LeaderEpoch: -1}
		case o.Err != nil:
			return nil, fmt.Errorf("read the commit of group %s for partition %d: %w", g.name, p, o.Err)
		default:
			out[p] = o.Offset
		}
	}
	return out, nil
}

// commit stores offsets, or takes the commit away where the offset is -1. It returns what has failed, by partition.
func (g group) commit(ctx context.Context, list []kadm.Offset) map[int32]error {
	failed := make(map[int32]error)
	var set kadm.Offsets
	var gone kadm.TopicsSet
	for _, o := range list {
		if o.At < 0 {
			gone.Add(g.topic, o.Partition)
			continue
		}
		set.Add(o)
	}
	if len(set) > 0 {
		// The request's error is nil also when every partition of it was refused.
		answers, err := g.admin.CommitOffsets(ctx, g.name, set)
		set.Each(func(o kadm.Offset) {
			answer, ok := answers.Lookup(g.topic, o.Partition)
			switch {
			case err != nil:
				failed[o.Partition] = err
			case !ok:
				failed[o.Partition] = errors.New("the broker did not answer for this partition")
			case answer.Err != nil:
				failed[o.Partition] = g.remap(answer.Err)
			}
		})
	}
	if len(gone) > 0 {
		answers, err := g.admin.DeleteOffsets(ctx, g.name, gone)
		for p := range gone[g.topic] {
			if answer, ok := answers.Lookup(g.topic, p); err != nil {
				failed[p] = err
			} else if !ok {
				failed[p] = errors.New("the broker did not answer for this partition")
			} else if answer != nil {
				failed[p] = g.remap(answer)
			}
		}
	}
	return failed
}

// remap says what a broker means by refusing a commit from outside.
func (g group) remap(err error) error {
	for _, code := range []error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.StaleMemberEpoch, kerr.RebalanceInProgress,
		kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic} {
		if errors.Is(err, code) {
			return fmt.Errorf("%w: %w", &ActiveError{Group: g.name, State: "a member has joined"}, err)
		}
	}
	return err
}
