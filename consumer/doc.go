// Package consumer is the worker: it turns records that point at reply tasks into settled tasks, many at once inside a
// partition, and commits a position only when every record before it is settled (I2).
//
// # The way of a record
//
//	poll ─▶ register ─▶ lane ─▶ ready ─▶ claim (batched) ─▶ provider call ─▶ settle (batched) ─▶ ended ─▶ commit
//	             │                         │                                    │
//	             │                         ├─ leased, not due ─▶ parked ────────┤ (retry)
//	             │                         ├─ finished, handed off ─────────────┼────────────────▶ ended
//	             └─ unreadable ────────────┴─ no such task ─▶ dead letter, acknowledged ─────────▶ ended
//
// Before the claim stands the gate: a record that it keeps back is parked unclaimed, so that no attempt is counted for a
// call that would not be let through. Between claim and call the conversation is read, in one statement for the batch.
// A task with a call whose answer was lost is claimed with what is known of that call; where the provider has a way, its
// answer is looked for before there is a second one.
//
// A parked record holds no slot, and its lane waits for it. That is why a rebalance costs no duplicate call: the old
// owner's call goes on under its lease, and the new owner's record waits for it instead of calling again.
//
// # Assignments
//
// One assignment object for each ownership of a partition: tracker, lanes, queues. Every record in work points at its
// own, so that an answer which comes back after a revoke cannot move the tracker of a later ownership. A session is one
// membership of the group, with a client of its own. When the group has dropped us (member id changed, a commit
// refused, a fetch error that stays) the session ends and a new one begins from the committed positions: a membership
// that is lost is not mended, since the client may keep cursors that someone else has moved past.
//
// # Who runs what
//
//	Run                  owns everything below and waits for it
//	session.run          the poll loop: receives and registers, never works
//	session.runCommits   commits every interval; drains commit too, under the same token: one commit in flight
//	runClaims (2)        take ready records and free slots, claim, start calls
//	call                 one for each call in flight: up to MaxInFlight
//	runSettles (2+1)     settle in batches, for as long as it takes; one has those whose rows somebody holds
//	runRenewals          renews all leases in one statement; cancels calls whose lease is lost
//	runParking           brings parked records back when they are due
//	runNotes             stores what running calls must have noted before they go on, in batches
//	runLive              publishes streamed texts, drops those of ended calls
//	runRecheck           looks up tasks leased by others, so that parked records end when their tasks do
//	group callbacks      run in the client's goroutines: assigned, revoked (drains), lost
//
// # Locks
//
// Consumer.mu guards everything in memory but settles and leases: assignments, trackers, lanes, the ring of partitions
// that have ready records, slots, the parking heap. It is held for microseconds and never across I/O. Order:
// pauseMu before mu, mu before leases.mu, a job's live.mu and endedMu; settleMu with no other.
//
// # What it does not do
//
// It does not decide whether an answer is accepted: the store does, by version and lease (I4). It does not retry a
// provider call: an attempt is one call, and the next one is claimed and counted again (I5).
package consumer
