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
// # Goroutines
//
// Run owns all of them and waits for them. One, the loop, owns all state but what Ready reads; it never waits for the
// database or the broker. Reads, sweeps, deletes and promotions each run on a goroutine of their own, one at a time of
// each kind, and hand their results to the loop; so does the goroutine that renews the leases, which no other one can
// hold up. Acknowledgements are collected under the lock of acks.
//
// # What it does not do
//
// It does not create topics, migrate, or look into tasks, and it does not give its shards up when it cannot reach a
// broker that others might reach: Ready reports that.
package outbox
