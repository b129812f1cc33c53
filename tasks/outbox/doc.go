// Package outbox publishes handoffs: it makes the Kafka record of every committed handoff and deletes the row once the
// broker has acknowledged the record with all its replicas (I3). Nothing else takes a row away, so a handoff outlives
// crashes of dispatchers, of the broker and of the topic.
//
// # What it promises
//
// Every handoff is published at least once. A crash between acknowledgement and delete, a takeover, or a lost
// acknowledgement publishes a record again; the task's claim makes that harmless.
//
// A conversation's handoffs are first published in the order of their ids, by three rules that hold whatever the
// client's settings are and however many readers a shard has for a moment:
//
//   - All of them share a shard, and a shard is read from its low end.
//   - A conversation has at most one record in flight; the next one starts when the broker has acknowledged the one
//     before. The cost is a bound of one record a round trip for one conversation, whose replies take seconds each.
//   - Ids are drawn before the commit, so a row may appear below ids that were read long ago. It may even be followed by
//     another one of its conversation, and must then be published before it. So a read does not start at the last id that
//     was seen, but at the last one below which no running transaction can add anything (tasks.Horizon), and skips what
//     is in hand. A transaction that takes more than 5 s from the id to the commit (1 s while a lot is published) is not
//     waited for: a sweep, which reads from the low end again now and then, finds its rows, and their order is not promised.
//
// A record that the broker refuses for what it is (too large, say) is kept, logged, counted, and tried again after a
// growing pause; its conversation waits behind it and no other does. The refusal of a batch is not taken for the
// refusal of its records: each of them is tried alone first.
//
// # Who reads what
//
// The live dispatchers share the shards evenly under leases, judged by the database's clock. A dispatcher drops a shard
// at nine tenths of the lease after it last asked for it, by its own monotonic clock. A shard with two readers for a
// moment would be published twice; leases spare work, and nothing depends on them.
//
// # Lost tasks
//
// A task can lose its record: the topic is deleted, retention passes it, a group's position is set past it, a handoff is
// deleted by hand. Such a task is handed off again, and no other is: a backlog of any length that waits in Kafka is left
// alone. It is a proof, not a time limit. In this order:
//
//  1. S, a snapshot of the database: its time, its transactions, and the tasks H that have a handoff, or a delayed one
//     that is due.
//  2. E, the end of every partition.
//  3. When the group has come to E everywhere (where it has committed nothing, or less than the log still has, the log's
//     start counts), each unfinished task is looked at, under its row's lock. It is lost if its row is the one that S
//     saw, if it was due at S (queued, or its lease was over), and if it is not in H.
//
// Nothing else will bring such a task back:
//
//   - A handoff is stored by a submission, with the task's row; by a promotion, from a delayed handoff; by a recovery,
//     which writes the row anew. So each handoff of the task was there at S, or came before: a later one needs another
//     row, or a delayed handoff. There was none at S: one that is due is in H, and none is due later than its task (a
//     re-arm, which makes a task due, takes its delayed handoff away, and writes its row). There
//     was none since: a settle that stores one writes the row anew, and a claim that does finds a task that is not due.
//   - The task is not in H, so each of its handoffs was deleted before S, hence acknowledged before S: its record lies
//     below E. A submission whose transaction was under way at S is not seen by S.
//   - What lies below E is settled, or gone from the log (I2). A record whose task waits, for a retry, for a worker's slot
//     or for another's lease, is not settled, and the group stays before it.
//   - A record is settled without its task's end only when a delayed handoff took its place. That one was promoted before
//     S, by the above, so its record is settled too, and so on; the last of them had no successor.
//
// What follows from it:
//
//   - A group without members or commits comes to nothing, and brokers that do not answer say nothing: nothing is
//     recovered. Recovered tasks are themselves a backlog: the next snapshot waits until they are read.
//   - A partition that stands still holds up the recovery of all: the snapshot says nothing about which partition a
//     record was in.
//   - A topic that was made again has another id, and with other partitions, or with less in one of them, it is another
//     log, too: a new snapshot is taken. A commit that lies beyond the end was made to another log, and says nothing until
//     it moves.
//   - With positions kept in Postgres the group's commits follow behind them, so these are enough.
//   - Records that a worker still holds when retention deletes them count as gone: the task then gets a second record,
//     which its claim makes harmless. A client that repeats an unanswered request after another has published the same
//     handoff can make a stray record beyond E, with the same effect.
//   - Whoever else stores a handoff of an existing task must write the task's row in the same transaction.
//
// It is bounded by the commits of one turn of the backlog, RecoverMargin and twice RecoverEvery. One dispatcher does it,
// the reader of shard 0, in steps of a thousand tasks at most.
//
// # Goroutines
//
// Run owns all of them and waits for them. One, the loop, owns all state but what Ready reads; it never waits for the
// database or the broker. Reads, sweeps, deletes, promotions and recoveries each run on a goroutine of their own, one at a time of
// each kind, and hand their results to the loop; so does the goroutine that renews the leases, which no other one can
// hold up. Acknowledgements are collected under the lock of acks.
//
// # What it does not do
//
// It does not create topics or migrate, and it does not give its shards up when it cannot reach a
// broker that others might reach: Ready reports that.
package outbox
