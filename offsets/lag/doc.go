// Package lag says how far a group is behind on a topic, and why: of each partition the lag in records and in seconds,
// the record that holds it back with its task, and a judgement.
//
// It promises:
//
//   - Reading changes nothing. No group is joined and no offset moves; records are read one by one from their leaders.
//   - Nothing is guessed. What cannot be read is None, NoSeconds or UNKNOWN, never 0; lag is never negative.
//   - Lag is never understated: commits are read first, the logs' ends after them.
//   - It is right for any group: with the classic protocol or that of KIP-848, with no member, no commit, a commit of
//     another tool, a topic that was made again, compacted logs, transactions. It needs Kafka only; with a database it
//     says more.
//
// # Words
//
//	committed    what the group's commit says; null without one
//	stored       the position in the database, where positions are kept with the replies; the commit follows it
//	position     the first offset that neither calls settled: where work goes on. Runs that are settled beyond the commit
//	             (its metadata) count, and what the database has
//	end          the high watermark
//	lag          end - committed, as Kafka's own tool has it; where the log begins later, or nothing is committed, from
//	             the log's start. Exact (asked for, or because the reading at the position came to the end): the records
//	             that can be read there, so neither holes of compaction nor markers of transactions
//	lag_seconds  age of the record at the position, by its own time: the time at which the dispatcher published it
//	head         that record, its task, and what the store says of it
//
// # Judgement
//
// Burrow's, over a window of samples: OK, WARN (moves and does not catch up), STALL (owned and still), STOP (no owner
// and still), REWIND (went back). And what Burrow does not know: BLOCKED (one record has held back others that are
// settled), NO_COMMIT, UNKNOWN. A window is as long as Rules say or shorter; a shorter one may only say of a record that
// is older than the bound what a longer one would say of any.
//
// # Who reads
//
// The CLI reads for itself. For metrics and the page a Monitor reads, in one process of an installation, which its owner
// elects: every partition has series then, also one whose worker died, and each has them once. The worker's own series
// (in flight, settled ahead, position) are of what only it knows.
//
// A Monitor's goroutine is Run's caller's. Read starts one for each leader and waits for them.
package lag
