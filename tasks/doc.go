// Package tasks is the domain: what a reply task is, which moves it may make, and what must be true of every one of them.
//
// # Invariants
//
// They are cited by number in code and in the names of tests (TestI2_...).
//
//	I1  One reply. A reply task has at most one saved response, whatever is redelivered, retried or replayed.
//	    Held by one guarded update: Settle.
//	I2  No commit past unfinished work. The committed position of a partition never passes a record that is not
//	    settled, in memory, on the wire and in Postgres. Held by offsets.Tracker.
//	I3  Nothing accepted is lost. A submission answered 2xx ends in a terminal state or stays visible as pending, even
//	    if the Kafka topic is deleted. Held by Submit: message, submission, task and handoff in one transaction; and by
//	    the dispatcher, which hands a task off again that no record will bring back (tasks/outbox).
//	I4  Stale owners cannot write. Only the current assignment (version equal, lease not expired by the database's
//	    clock) settles a task. Held by Settle, Renew: the row lock first, then the clock.
//	I5  The budget holds. Provider requests on the wire for one task never exceed its budget, over crashes,
//	    redeliveries, replays and every layer's retries. Held by Claim, which counts the attempt before the call, and by
//	    llm.Transport, which puts one request on the wire an attempt. Only an operator raises it: Rearm, once a replay.
//	I6  Same key, same work. Same (workspace, operation, key) and same inputs: the same task. Same key, other inputs:
//	    refused. Held by the unique key of submissions and by Fingerprint.
//	I7  Spending is recorded. Every usage report that reached us is in the ledger, also of attempts whose answer was
//	    not accepted; an unknown cost is unknown, never 0. Held by Settle, which writes the ledger whatever it decides.
//	I8  Workspaces are apart. No caller reads, changes or infers another workspace's data. Held by the workspace that
//	    every query carries.
//
// Not promised: that the provider is called exactly once, that the model says the same thing twice, that an answer exists.
//
// # States
//
//	            claim (version+1, attempts+1)                settle: complete
//	submit ─▶ queued ──────────────────────────▶ running ─────────────────────▶ completed
//	            ▲ │                               │ │ ▲ │
//	            │ │ settle: retry, release        │ │ └─┘ renew (lease), or takeover once the lease is over
//	            └─┼───────────────────────────────┘ │       (version+1, attempts+1, interruptions+1)
//	              │                                 │ settle: fail
//	              ├─ claim finds the budget ────────┴───────────────────────────▶ failed
//	              │  or the deadline spent, or that an attempt
//	              │  may have run of a task that says stop
//	              └─ cancel, also of a running task ────────────────────────────▶ cancelled
//
// Every arrow is one statement of the store whose guard is evaluated after the row's lock is held and against the
// database's clock. completed, failed and cancelled are terminal: nothing leaves them by itself. An operator may have a
// failed task run again (Rearm): it is queued, with a new handoff, a new deadline and a budget that has grown where everyone
// can see it; its ledger and its version go on. What is completed or cancelled stays so.
//
// # Who decides
//
// An assignment is a task's version and a lease. The version only grows, so a version that is not the row's own is
// stale for ever. The lease is renewed by its worker and judged by the database's clock alone: this package and its
// users pass durations, never instants.
package tasks
