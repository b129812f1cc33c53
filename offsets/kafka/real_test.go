package kafka

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/offsets"
)

// What kfake does not do as a real broker does: the size and encoding of metadata, and what it says to a member that is
// gone, which differs between the protocols.

type protocol struct {
	opts   []kgo.Opt
	remove func(t *testing.T, cl *kgo.Client, group, memberID string) error // as an administrator does
}

var protocols = map[string]protocol{
	"classic": {[]kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.SessionTimeout(6 * time.Second)}, removeClassic},
	"848":     {[]kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}, remove848},
}

// each runs f under both group protocols, with a topic of two partitions whose name is the group's too.
func each(t *testing.T, f func(t *testing.T, addrs []string, topic string, p protocol)) {
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			b := broker.Shared(t)
			f(t, b.Addrs, broker.Topic(t, b, 2), p)
		})
	}
}

// alternating is more than any metadata holds: every second offset, 2 bytes each.
func alternating() (many []offsets.Run) {
	for o := int64(10); len(many) < 4000; o += 2 {
		many = append(many, offsets.Run{From: o, To: o + 1})
	}
	return many
}

func TestRealMetadataUpToTheLimit(t *testing.T) {
	each(t, func(t *testing.T, addrs []string, topic string, p protocol) {
		many := alternating()
		m := owner(t, addrs, topic, Config{Group: topic}, p.opts...)
		if err := m.commit(0, 10, many...); err != nil {
			t.Fatal(err)
		}
		got := stored(t, addrs, topic, topic, 0)
		if n := len(got.Metadata); got.At != 10 || n < 4090 || n > 4096 {
			t.Errorf("stored %d with %d bytes, want 10 with as much as the broker takes", got.At, n)
		}
		m.cl.Close()

		m = owner(t, addrs, topic, Config{Group: topic}, p.opts...)
		committed, ahead := m.com.Resume(topic, 0)
		if committed != 10 || len(ahead) < 1000 || !slices.Equal(ahead, many[:len(ahead)]) {
			t.Errorf("resumed at %d with %d runs", committed, len(ahead))
		}
	})
}

func TestRealMetadataBeyondTheLimitIsLeftOut(t *testing.T) {
	each(t, func(t *testing.T, addrs []string, topic string, p protocol) {
		many := alternating()
		m := owner(t, addrs, topic, Config{Group: topic, MetadataLimit: 5000}, p.opts...)
		errs := m.com.Commit(t.Context(), m.id(), []offsets.Commit{m.item(0, 10, many...), m.item(1, 3, many[0])})
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		if got := stored(t, addrs, topic, topic, 0); got.At != 10 || got.Metadata != "" {
			t.Errorf("stored %d with %d bytes, want 10 with none", got.At, len(got.Metadata))
		}
		if got := stored(t, addrs, topic, topic, 1); got.At != 3 || got.Metadata == "" {
			t.Errorf("its neighbour stored %d with %q", got.At, got.Metadata)
		}
		if err := m.commit(0, 11, many...); err != nil {
			t.Fatal(err)
		}
		if got := stored(t, addrs, topic, topic, 0); got.At != 11 || len(got.Metadata) < 2000 {
			t.Errorf("then stored %d with %d bytes, want 11 with some 2500", got.At, len(got.Metadata))
		}
	})
}

// A member is removed while it works; another takes its partition and goes on. What the first then wants to commit must
// not move the group back, neither before it knows nor after it has joined again under another id.
func TestI2_RealZombieCommitIsRefused(t *testing.T) {
	each(t, func(t *testing.T, addrs []string, topic string, p protocol) {
		// A slow heartbeat lets the commit, not the heartbeat, be what finds out.
		a := owner(t, addrs, topic, Config{Group: topic}, append(slices.Clone(p.opts), kgo.HeartbeatInterval(3*time.Second))...)
		was := a.id()
		if err := a.commit(0, 5); err != nil {
			t.Fatal(err)
		}
		if err := p.remove(t, a.cl, topic, was); err != nil {
			t.Fatal(err)
		}
		b := owner(t, addrs, topic, Config{Group: topic}, p.opts...)
		commitSoon(t, b, 40)

		late := func(when string) {
			t.Helper()
			err := a.com.Commit(t.Context(), was, []offsets.Commit{a.item(0, 10)})[0]
			if !errors.Is(err, offsets.ErrNotOwner) {
				t.Errorf("%s: %v, want ErrNotOwner", when, err)
			}
			if got := stored(t, addrs, topic, topic, 0).At; got != 40 {
				t.Errorf("%s: the group was moved to %d", when, got)
			}
		}
		late("before it knows")
		a.awaitOtherID(was)
		late("after it joined again")

		// The control: under the id it has now the broker takes it, which is why the id is checked here.
		commitSoon(t, a, 10)
		if got := stored(t, addrs, topic, topic, 0).At; got != 10 {
			t.Errorf("the broker refused a live member's commit (position %d); this test shows nothing", got)
		}
	})
}

func removeClassic(t *testing.T, cl *kgo.Client, group, memberID string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, memberID
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = memberID
	req.Members = append(req.Members, member)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	for _, m := range resp.Members {
		err = errors.Join(err, kerr.ErrorForCode(m.ErrorCode))
	}
	return err
}

func remove848(t *testing.T, cl *kgo.Client, group, memberID string) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, memberID, -1
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}
