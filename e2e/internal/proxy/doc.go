// Package proxy stands between the two ends of TCP connections and does to them what networks do: hold bytes up, swallow
// them, reset the connection, or lose the answer of a request that has taken effect. What it promises to a test: a fault
// is in force when the call that asks for it returns, what it forwards is whole messages of the protocol, and after Close
// nothing of it is left.
//
// Kafka, Postgres and HTTP/1.1 are understood as far as it takes to tell requests apart and to know which answer belongs to
// which; of HTTP/2 and of what a CONNECT opens, that it began.
// A Kafka broker names its own address in its answers, which would lead clients past the proxy; those answers are
// rewritten, so that any broker will do, also one that others use directly at the same time. All brokers become the
// proxy: it is for clusters of one node.
//
// A Proxy has one goroutine that accepts and two for each connection; Close waits for all of them. Its methods may be
// used by several goroutines at once.
package proxy
