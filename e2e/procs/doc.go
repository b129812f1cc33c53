// Package procs starts our real program as real processes, against a real Kafka and a real Postgres with fsync on, and
// kills them. What it promises to a test: every process it started has ended when the test has, and a failed test
// shows the end of each process's log.
//
// A World is one installation: topic, database, simulated model and an API key. A Node is one process of it, which can
// be killed and started again on the same addresses. A Client is a caller that repeats what was not answered. A Watch
// reads the group's commits all the time and says afterwards whether one of them was ahead of the work (I2).
//
// A Watch has one goroutine, which ends in Stop. Nodes may be used by several goroutines at once.
package procs
