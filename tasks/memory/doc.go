// Package memory is the model store: a tasks.Store in one process's memory, for simulations and fast tests. It promises
// to decide everything exactly as the Postgres store does (tasks/storetest is run on both), by a clock that the caller
// gives it, and to be simple enough to be believed by reading it.
//
// One mutex guards everything; the clock is read after it is held, as the Postgres store reads its clock after the row's
// lock. No goroutine, no I/O, nothing is kept when the process ends, nothing is deleted but what the outbox deletes, and Sweep when
// it is called.
package memory
