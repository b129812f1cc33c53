// Package postgres keeps positions beside the replies: what is settled of each partition is a multirange in a row that
// the settling transaction of tasks/postgres writes too, so that position and reply commit or fail together.
//
// It promises:
//
//   - One owner (I4). Acquire gives each partition a greater epoch, and a store under any other epoch is refused. The
//     row is locked before its epoch is looked at: an owner that waited for the lock while a newer one acquired sees
//     the newer epoch. A bare join would look at the row as it was when the statement began.
//   - No deadlock. Whoever locks rows of partition_positions does so in the order of their key, and after rows of tasks.
//   - Spans merge by themselves. A store may be repeated, and may come in any order.
//   - What is stored is what was given. Runs of the group's commit are added when a partition is acquired, never taken
//     away, except beyond the log's end, where they speak of records that are gone.
//
// A row is as large as its spans are many: one, and one more for each record that others have passed, so some tens, however
// many records there were. Each store writes the row anew. What a store of one place costs (BenchmarkSettle, on two busy
// cores): 0.5 ms with 1 span, 2 ms with 100, 5 ms with 1,000 (7 KiB compressed), 39 ms with 10,000 (72 KiB). The consumer's
// bound on how far it reads beyond an unsettled record is what keeps it there; nothing here drops a span to save room.
//
// It starts no goroutine and owns no connection: the pool is its caller's, who closes it. Rows of topics and groups that
// are gone stay; there is one for each partition. It does not know Kafka: the group's commits follow from the consumer.
package postgres
