// Package node runs roles of the product in one process: the API, the dispatcher, the worker, any of them together, and
// an admin listener beside them.
//
// Start returns when every role has begun, or with an error that says which part of the outside world is missing and
// what to do. Run owns every goroutine of the node and returns when all have ended. A stop goes in this order: the API
// takes nothing new while the worker drains, then the dispatcher, the hints and the connections, the admin listener last,
// so that a stop can be watched.
//
// It decides nothing about tasks; it connects what the other packages promise.
package node
