// Package procs starts our real program as real processes, against a real Kafka and a real Postgres with fsync on, and
// kills them. What it promises to a test: every process it started has ended when the test has, and a failed test
// shows the end of each process's log.
//
// A World is one installation: topic, database, simulated model and an API key. A Node is one process of it, which can
// be killed and started again on the same addresses. A Client is a caller that repeats what was not answered. A Watch
// reads the group's commits all the time and says afterwards whether one of them was ahead of the work (I2).
//
// A proxied Node reaches Kafka, Postgres and the model through proxies of its own, whose requests and answers can be held,
// swallowed, cut or lost by name. A World may have a broker or a Postgres of its own (Own), which may be killed too; the
// others share those of the test binary.
//
// The tests: TestBoundary_<what> is one failure boundary of the design each, reached by a gate and not by luck;
// TestI5_WireRequestsAreAttempts counts requests between workers and the model, over all that the model can do, against
// both ledgers; TestSecretsStayWhereTheyBelong reads all that a run has written; TestRollingRestart and
// TestI5_KilledWorkers count calls under load; TestFaultsUnderLoad draws one fault a run from a seed (-procs.runs N for
// more than one of each kind) and holds all runs to the same checks; TestSeparateProcesses kills everything at random. What is not had: a broker with a slow disk, which would take a file system of our own; a broker
// that stands still is what clients see of one.
//
// A Watch has one goroutine, which ends in Stop. Nodes may be used by several goroutines at once.
package procs
