package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/fencepost/fencepost/offsets"
)

func moving(partition int32, was, to []run) offsets.Move {
	return offsets.Move{Group: group, TopicID: topicA, Partition: partition, Was: was, To: to}
}

func TestI4_AMoveRaisesTheEpochAndStoresOfTheOwnerBeforeAreRefused(t *testing.T) {
	k := newKit(t)
	owner := k.acquire("w", begin(topicA, 0, 100, run{From: 0, To: 50}, run{From: 60, To: 70}))[0].Owner
	was, to := []run{{From: 0, To: 50}, {From: 60, To: 70}}, []run{{From: 0, To: 10}}
	if err := k.positions.Move(context.Background(), "me@here", []offsets.Move{moving(0, was, to)}); err != nil {
		t.Fatal(err)
	}
	if k.settle(place(owner, 10, 11))[0] {
		t.Error("a store of the owner before the move was accepted")
	}
	if s := k.want(topicA, 0, owner.Epoch+1, to...); s.Owner != "me@here" {
		t.Errorf("owner %q", s.Owner)
	}
	if err := k.positions.Move(context.Background(), "me@here", []offsets.Move{moving(0, to, was)}); err != nil {
		t.Fatal(err)
	}
	k.want(topicA, 0, owner.Epoch+2, was...)
}

func TestAMoveIsOfAllPartitionsOrOfNone(t *testing.T) {
	k := newKit(t)
	k.acquire("w", begin(topicA, 0, 100, run{From: 0, To: 50}), begin(topicA, 1, 100, run{From: 0, To: 40}))
	for name, second := range map[string]offsets.Move{
		"changed": moving(1, []run{{From: 0, To: 39}}, nil), "no row": moving(2, nil, nil),
	} {
		err := k.positions.Move(context.Background(), "me", []offsets.Move{moving(0, []run{{From: 0, To: 50}}, nil), second})
		if !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v, want %v", name, err, ErrChanged)
		}
		k.want(topicA, 0, 1, run{From: 0, To: 50})
		k.want(topicA, 1, 1, run{From: 0, To: 40})
	}
	twice := []offsets.Move{moving(0, []run{{From: 0, To: 50}}, nil), moving(0, []run{{From: 0, To: 50}}, nil)}
	if err := k.positions.Move(context.Background(), "me", twice); !errors.Is(err, offsets.ErrInvalid) {
		t.Errorf("twice: %v", err)
	}
	if err := k.positions.Move(context.Background(), "me", nil); err != nil {
		t.Error(err)
	}
}
