// Package postgres is the store: tasks.Store and the dispatcher's outbox in Postgres. It promises that every decision is
// taken while the task's row is locked and by the clock of the database read after that lock, that a call may be repeated
// when its answer was lost, and that one item which cannot be stored, or whose row somebody holds, does not keep its
// neighbours from being stored.
//
// # The shape of a judged statement
//
// Claim, Renew, Settle and Cancel are one statement each, made of the same parts: input (the items, unnested from
// parallel arrays), locked (their rows, for update, in the order of ids, so that two batches cannot deadlock), clock (one
// reading, which the planner cannot take before the last lock is held), judged (the verdict of each), and then the
// guarded writes. A plain guarded UPDATE would read the clock before it waits for the lock, and accept a settle seconds
// after its lease. The writes read judged alone, never a join of two parts: a part has no statistics, and such a join
// becomes a nested loop over both.
//
// Those of batches run twice at most: first they skip rows that somebody holds, then they wait for these, a bounded time.
// A row that an operator's forgotten transaction holds thereby costs its own task a wait, and no other a lease. A claim
// waits in a statement of its own, because it reads the ledger too, which has to be as new as the row: see claim.go. Note
// judges nothing and locks the same way.
//
// Rearm has the same parts, within a transaction that holds the row of its replay: see rearm.go.
//
// # Budgets
//
// A submission to a workspace with a budget locks the account of the day, after its keys and after nothing else that anyone
// waits for. Claim, Settle and Cancel never do: they insert what becomes of a reservation (charge.go), and the next
// submission adds it up (reserve.go).
//
// # Keys
//
// What a key is bound to is read, and a replay counted, by one statement after the one that wanted to bind it (bound.go):
// an answer's count cannot be lost, and costs no round trip of its own. It locks submissions in the order of their keys.
//
// # What is old
//
// Sweep deletes in batches what SweepConfig names, never waits, and may run anywhere at once. The only thing that a sweep
// may want and somebody else begin to need is the message of an old task: who regenerates holds it while it submits.
//
// # Spending
//
// Every statement that ends an attempt, or goes on without it, inserts what that changes of the sums into spend_changes
// (spendchange.go); FoldSpend adds up what is there, one process at a time (spendfold.go), and Spend reads both in one
// snapshot. What is folded outlives the tasks it is of. FoldSpend has to run now and then: until it does, a sum reads every
// change of its workspace.
//
// # Who owns what
//
// Store owns two pools: one for work, and a small one for renewals alone, since a lease must not run out because every
// connection is busy. Pgxpool's own goroutines are the only ones, and end with Close. No transaction stays open between
// calls. Statements are prepared, one plan each; see Config.Pooler where that is not possible.
//
// It does not migrate (package migrations), publish (tasks/outbox) or decide when what is old is deleted.
package postgres
