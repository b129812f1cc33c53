// Package history checks what was seen of a run against the invariants I1..I8 of package tasks. It is pure: events in,
// violations out. Simulations (e2e/sim) and process runs write the same events, each as much as it can see; an invariant
// that needs what was not seen is not checked, so a history that shows little accuses nobody.
//
// # Events
//
// One JSON object a line, in the order in which they were seen. The order counts, not T: of two events at one instant
// the first came first. T counts where two clocks are compared: leases, and records against dead letters.
//
//	invoke   the caller asked
//	ok       the caller got this answer
//	fail     the caller knows that nothing has happened
//	info     the caller does not know: an acknowledgement was lost, a deadline passed
//	applied  what the store itself decided, at the moment it did, where the observer stands inside
//
// What was decided is taken from applied events where a history has any of that operation, else from ok.
//
//	submit      Task, Workspace, Conversation, Key, Inputs (fingerprint), MaxAttempts; Verdict "key_reused" when refused
//	claim       Task, Workspace, Version, LeaseUntil; Verdict is tasks.Decision; Status
//	renew       Task, Version, LeaseUntil; Verdict "kept" or "lost"
//	settle      Task, Version, Outcome, Reply, Handoff, Tokens; Verdict is tasks.Verdict; Status
//	cancel      Task, Workspace; Status; Verdict "not_found"
//	read        Task, Workspace, Version, Status, Reply; Verdict "not_found"
//	call        a provider call, as the provider's ledger has it: Task, Proc, Tokens (as billed, on ok)
//	commit      Partition, Offset: a position as its committer sees it
//	wire        Partition, Offset, Ahead: a commit as the broker receives it
//	record      Partition, Offset, Task (empty: unreadable), Workspace; T is when it was appended
//	deadletter  Partition, Offset of the original; T is when it was written
//	deleted     Partition, Offset: the log now begins there
//	attempt     a row of the ledger at the end: Task, Version, Outcome, Tokens
//	final       the task at the end: Task, Workspace, Status, Reply, Version
//	killed      Proc is dead: what it had in hand is lost, and nobody promised otherwise
//	quiet       faults are over, and long enough ago for everything to have ended
package history
