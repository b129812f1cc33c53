package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencepost/fencepost/offsets"
)

// BenchmarkSettle stores one place in a row that has many spans: an operation is the call. Every second one adds a span,
// the next closes it.
func BenchmarkSettle(b *testing.B) {
	for _, spans := range []int64{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprint("spans=", spans), func(b *testing.B) {
			k := newKit(b)
			var all []offsets.Run
			for i := range spans {
				all = append(all, run{From: 2 * i, To: 2*i + 1})
			}
			o := k.acquire("w", begin(topicA, 0, 1<<40, all...))[0].Owner
			at := 2 * spans
			b.ResetTimer()
			for range b.N {
				k.settle(place(o, at, at+1))
				at++
			}
			b.StopTimer()
			var size int
			err := k.pool.QueryRow(context.Background(), `select pg_column_size(settled) from partition_positions`).Scan(&size)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// BenchmarkAcquire takes the partitions of one assignment: an operation is the call.
func BenchmarkAcquire(b *testing.B) {
	for _, partitions := range []int32{12, 1000} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) {
			k := newKit(b)
			var items []offsets.Begin
			for p := range partitions {
				items = append(items, begin(topicA, p, 1<<40, run{From: 0, To: 100}, run{From: 110, To: 120}))
			}
			for b.Loop() {
				k.acquire("w", items...)
			}
		})
	}
}
