package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

const (
	benchConns = 4
	benchReply = 1000 // bytes of a reply
	benchInput = 600  // bytes of a message
)

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.Context(), Config{URL: pgtest.URL(b), MaxConns: benchConns})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

func benchSubmissions(from, to int) []tasks.Submission {
	items := make([]tasks.Submission, 0, to-from)
	text := strings.Repeat("x", benchInput)
	for i := from; i < to; i++ {
		s := submission(fmt.Sprint("conversation ", i%1000))
		s.Request.Content = text
		items = append(items, s)
	}
	return items
}

// inBatches runs do over 0..n-1 in batches, on as many goroutines as the pool has connections.
func inBatches(b *testing.B, n, size int, do func(ctx context.Context, from, to int) error) {
	b.Helper()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(b.Context())
	for range benchConns {
		g.Go(func() error {
			for {
				from := int(next.Add(int64(size))) - size
				if from >= n {
					return nil
				}
				if err := do(ctx, from, min(from+size, n)); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClaimSettle is what Postgres costs a task between poll and commit: an operation is one task, claimed and
// completed in batches on four connections; with places, in twelve partitions.
func BenchmarkClaimSettle(b *testing.B) {
	for _, c := range []struct {
		size   int
		placed bool
	}{{50, false}, {200, false}, {50, true}, {200, true}} {
		size := c.size
		b.Run(fmt.Sprintf("batch=%d/places=%t", size, c.placed), func(b *testing.B) {
			s := benchStore(b)
			var places []tasks.Place
			for p := range int32(12) {
				if c.placed {
					place := tasks.Place{Group: "g", TopicID: uuid.UUID{1}, Partition: p}
					place.Epoch = acquire(b, s.pool, place)
					places = append(places, place)
				}
			}
			items := benchSubmissions(0, b.N)
			inBatches(b, b.N, 500, func(ctx context.Context, from, to int) error {
				_, err := s.Submit(ctx, items[from:to])
				return err
			})
			if _, err := s.pool.Exec(b.Context(), `vacuum analyze`); err != nil {
				b.Fatal(err)
			}
			text := strings.Repeat("y", benchReply)
			b.ResetTimer()
			inBatches(b, b.N, size, func(ctx context.Context, from, to int) error {
				refs := make([]tasks.Ref, 0, to-from)
				for i := range items[from:to] {
					refs = append(refs, tasks.Ref{TaskID: items[from+i].TaskID, Workspace: items[from+i].Workspace})
				}
				claims, err := s.Claim(ctx, claimer(20*time.Second), refs)
				if err != nil {
					return err
				}
				settles := make([]tasks.Settlement, 0, len(claims))
				for i, claimed := range claims {
					done := complete(*claimed.Work, text)
					if c.placed {
						done.Place = places[(from+i)%len(places)]
						done.Place.From = int64((from + i) / len(places))
						done.Place.To = done.Place.From + 1
					}
					settles = append(settles, done)
				}
				settled, err := s.Settle(ctx, settles)
				if err != nil {
					return err
				}
				for _, r := range settled {
					if r.Verdict != tasks.VerdictAccepted {
						return fmt.Errorf("settle: %+v", r)
					}
				}
				return nil
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkRawClaimSettle is the same work without the store: the two statements alone, with arguments made beforehand and
// answers thrown away. What BenchmarkClaimSettle has less is the store's own cost.
func BenchmarkRawClaimSettle(b *testing.B) {
	const size = 200
	s := benchStore(b)
	items := benchSubmissions(0, b.N)
	inBatches(b, b.N, 500, func(ctx context.Context, from, to int) error {
		_, err := s.Submit(ctx, items[from:to])
		return err
	})
	if _, err := s.pool.Exec(b.Context(), `vacuum analyze`); err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("y", benchReply)
	var claims, settles [][]any
	for from := 0; from < b.N; from += size {
		part := indexes(min(size, b.N-from))
		batch := items[from : from+len(part)]
		works := make([]tasks.Settlement, len(part))
		for i := range works {
			works[i] = complete(tasks.Work{Assignment: tasks.Assignment{TaskID: batch[i].TaskID, Workspace: "w", Version: 1}}, text)
		}
		claims = append(claims, []any{
			uuids(batch, part, func(s *tasks.Submission) uuid.UUID { return s.TaskID }),
			texts(batch, part, func(s *tasks.Submission) string { return s.Workspace }),
			"worker", int64(20_000_000), int64(60_000_000), "sim", int64(0), false,
		})
		settles = append(settles, settleArgs(works, part))
	}
	b.ResetTimer()
	inBatches(b, len(claims), 1, func(ctx context.Context, n, _ int) error {
		if _, err := s.pool.Exec(ctx, claimSQL, claims[n]...); err != nil {
			return err
		}
		_, err := s.pool.Exec(ctx, settleFreeSQL, settles[n]...)
		return err
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkSubmit is what the API's batcher asks of Postgres: an operation is one submission, of 600 bytes.
func BenchmarkSubmit(b *testing.B) {
	for _, size := range []int{10, 50, 200} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			s := benchStore(b)
			items := benchSubmissions(0, b.N)
			b.ResetTimer()
			inBatches(b, b.N, size, func(ctx context.Context, from, to int) error {
				out, err := s.Submit(ctx, items[from:to])
				if err == nil && (out[0].Err != nil || out[0].TaskID == uuid.Nil) {
					err = fmt.Errorf("submit: %+v", out[0])
				}
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submissions/s")
		})
	}
}

// BenchmarkRenew prolongs the leases of 1000 running tasks in one call: an operation is the call.
func BenchmarkRenew(b *testing.B) {
	s := benchStore(b)
	items := benchSubmissions(0, 1000)
	if _, err := s.Submit(b.Context(), items); err != nil {
		b.Fatal(err)
	}
	var held []tasks.Assignment
	for _, item := range items {
		held = append(held, tasks.Assignment{TaskID: item.TaskID, Workspace: item.Workspace, Version: 1})
	}
	refs := make([]tasks.Ref, len(held))
	for i, a := range held {
		refs[i] = tasks.Ref{TaskID: a.TaskID, Workspace: a.Workspace}
	}
	if _, err := s.Claim(b.Context(), claimer(time.Hour), refs); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if out, err := s.Renew(b.Context(), time.Hour, held); err != nil || out[0] != tasks.RenewalKept {
			b.Fatal(err, out[0])
		}
	}
}
