package doctor

import (
	"context"
	"testing"
	"time"
)

func TestThePartsAreLookedAtWhateverTheOthersDo(t *testing.T) {
	down := Part{Name: "down", Names: []string{"reachable", "more"}, Look: func(_ context.Context, f *Findings) {
		f.Add("reachable", Fail, "start it", "nobody answers")
		f.Add("reachable", OK, "", "the second word does not count")
		f.Rest("it was not reached")
	}}
	deaf := Part{Name: "deaf", Names: []string{"a", "b"}, Look: func(ctx context.Context, f *Findings) {
		f.Add("a", Warn, "hurry", "slow")
		<-ctx.Done()
	}}
	up := Part{Name: "up", Names: []string{"fine"}, Look: func(_ context.Context, f *Findings) { f.Add("fine", OK, "", "yes") }}
	r := Run(t.Context(), 50*time.Millisecond, down, deaf, up)
	want := []Check{
		{"down", "reachable", Fail, "nobody answers", "start it"},
		{"down", "more", Unknown, "it was not reached", ""},
		{"deaf", "a", Warn, "slow", "hurry"},
		{"deaf", "b", Unknown, "not looked at: the time was over", ""},
		{"up", "fine", OK, "yes", ""},
	}
	if len(r.Checks) != len(want) {
		t.Fatalf("%d checks, want %d: %+v", len(r.Checks), len(want), r.Checks)
	}
	for i, c := range r.Checks {
		if c != want[i] {
			t.Errorf("%+v, want %+v", c, want[i])
		}
	}
	if r.State != Fail {
		t.Errorf("state %s, want the worst", r.State)
	}
	if r := Run(t.Context(), time.Second, up); r.State != OK {
		t.Errorf("state %s of a part that is fine", r.State)
	}
}
