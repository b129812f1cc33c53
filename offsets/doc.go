// Package offsets knows, for one partition, which of the received records are settled, and says which position may be
// committed: never past a record that is not settled (I2).
//
// It promises three things.
//
//   - Tracker is exact: records are registered in the order received and settled in any order, and the position is the
//     first unsettled record, else the last registered one + 1. It counts records, never offsets, so holes in the log
//     (compaction, transaction markers, aborted records) hold nothing back: a record's span reaches back to the record
//     before it.
//   - A handle is good once, for its own record and for its own tracker. One tracker belongs to one assignment of a
//     partition, so that an answer that comes back after the partition has gone, and come again, changes nothing.
//   - The codec loses knowledge, never invents it: what DecodeRuns returns is a subset of what EncodeRuns was given
//     for that position, or an error.
//
// Nothing here starts a goroutine, takes a lock, reads a clock or knows Kafka. A Tracker is guarded by its owner's lock.
// Where positions are kept is the business of the folders below: kafka keeps them in the group's commits.
//
// What it does not do: fence stale owners (the consumer's assignment and the committer's member check do), bound its
// window (the consumer pauses the partition), or remember anything after a restart (Commit.Ahead does).
package offsets
