// Package storetest is the conformance suite of tasks.Store: what its doc comments promise, as tests that the model
// store (tasks/memory) and the Postgres store both pass. The simulation runs on the model, so whatever the two may do
// differently is a place where the simulation proves nothing; a rule that matters belongs here.
//
// Where the comments of tasks leave a choice, the suite fixes it:
//
//   - What cannot be stored is what Submission.Check and Settlement.Check refuse, and a task id that another submission
//     has taken.
//   - Settle looks at the workspace, then for a repeat of what this assignment has had accepted, then at the status,
//     then at the version, then at the lease, then (for a reply) at the deadline. So a late settle of a finished task is
//     VerdictCancelled or VerdictTerminal, and VerdictTakenOver only while the task goes on.
//   - Claim judges a task that nobody holds: a lease that ran out is counted as an interruption; then interruptions over
//     their maximum, the deadline, the attempts fail it; only then is it asked whether the task is due.
//   - An interruption over the maximum fails with ClassInterrupted, a passed deadline with ClassDeadline, spent attempts
//     with the last failure's class, or ClassAttempts when there was none.
//   - A submission whose task id its key is bound to already is the same submission: it is answered as if it had just been
//     stored, and is not Replayed.
//   - A ledger row that has ended is not changed by a later settle of its own assignment. One that recovered its answer
//     fills in what it does not know: an outcome of unknown then becomes not_accepted, any other stays, and without a usage
//     the row stays open, since the attempt itself may still report one.
//   - A task that says stop is judged after the budgets and before whether it is due, also under a hold: it is not waited for.
//   - An attempt costs nothing when it ended without a wire request; its cost is otherwise unknown until PicoUSD is set.
//   - A budget charges an attempt that has ended its amount, or what was reserved where that is unknown although something
//     was on the wire; one that has not ended as much as was reserved, from when its task goes on without it. What is
//     learned later corrects it. A task submitted where there was no budget has no part in one.
//   - Spend counts an attempt when it has ended, or as unknown when its task has gone on or ended without it, on the day it
//     began. What was paid for an answer that did not become the reply is not accepted, unless a later attempt has recovered
//     the answer and had it accepted. A replay of a task that has ended saves what is known of its cost by then, once each.
package storetest
