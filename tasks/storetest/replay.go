package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// expiry wants the answer to say that the key is forgotten after d more.
func (k *kit) expiry(out tasks.Submitted, accepted time.Time, d time.Duration) {
	k.Helper()
	if off := out.ExpiresAt.Sub(accepted.Add(d)); off.Abs() > time.Minute || out.ExpiresAt.Location() != time.UTC {
		k.Fatalf("the key is forgotten at %s, want %s after %s", out.ExpiresAt, d, accepted)
	}
}

func (k *kit) wantReplays(s tasks.Submission, want int64) {
	k.Helper()
	if got := k.Replays(s); got != want {
		k.Fatalf("%d replays, want %d", got, want)
	}
}

var replayTests = []test{
	{"I6_every_answer_says_until_when_its_key_is_known", func(k *kit) {
		short := func(s *tasks.Submission) { s.Key, s.Retention = "k", 5*time.Hour }
		s := submission(short)
		first := k.submitAll(s)[0]
		k.expiry(first, first.AcceptedAt, 5*time.Hour)
		k.Advance(2 * time.Hour)
		accepted := k.read(s).AcceptedAt // as it is stored now
		longer := submission(short, func(s *tasks.Submission) { s.Retention = 50 * time.Hour })
		k.expiry(k.submitAll(longer)[0], accepted, 5*time.Hour) // a replay prolongs nothing
		k.expiry(k.submitAll(s)[0], accepted, 5*time.Hour)      // nor does a repeat after a lost acknowledgement
		other := submission(short, func(s *tasks.Submission) { s.Request.Content = "other" })
		if out := k.submitAll(other)[0]; !errors.Is(out.Err, tasks.ErrKeyReused) {
			k.Fatalf("other inputs: %+v", out)
		}
		k.Advance(4 * time.Hour)
		again := submission(short)
		out := k.submitAll(again)[0]
		if out.TaskID != again.TaskID || out.Replayed {
			k.Fatalf("after the key has expired: %+v", out)
		}
		k.expiry(out, out.AcceptedAt, 5*time.Hour)
		k.wantReplays(again, 0)
	}},
	{"replays_are_counted", func(k *kit) {
		same := func(s *tasks.Submission) { s.Key = "k" }
		first := submission(same)
		other := submission(same, func(s *tasks.Submission) { s.Request.Content = "other" })
		quiet := submission()
		k.submitAll(first, submission(same), quiet)
		k.wantReplays(first, 1)
		k.submitAll(first) // the caller's own, whose acknowledgement was lost
		k.submitAll(other) // is refused
		k.wantReplays(first, 1)
		k.submitAll(submission(same), submission(), submission(same), other, submission(same))
		k.wantReplays(first, 4)
		k.wantReplays(quiet, 0)
	}},
	{"replays_of_many_keys_at_once_are_all_counted", func(k *kit) {
		const keys, batches = 30, 6
		batch := func(reverse bool) []tasks.Submission {
			var items []tasks.Submission
			for i := range keys {
				items = append(items, submission(func(s *tasks.Submission) { s.Key = fmt.Sprint("key ", i) }))
			}
			if reverse {
				slices.Reverse(items)
			}
			return items
		}
		first := batch(false)
		k.submitAll(first...)
		together(batches, func(b int) {
			out, err := k.Store.Submit(k.ctx, batch(b%2 == 1))
			if err != nil {
				k.Errorf("batch %d: %v", b, err)
			}
			for _, o := range out {
				if o.Err != nil || !o.Replayed {
					k.Errorf("batch %d: %+v", b, o)
				}
			}
		})
		for _, s := range first {
			k.wantReplays(s, batches)
		}
	}},
}
