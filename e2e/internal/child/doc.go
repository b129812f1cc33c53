// Package child runs other programs for tests. It promises that a child never outlives the test binary on Linux,
// however that ends, and that a signal reaches all that the child has started.
//
// Each child has one goroutine, which holds an OS thread and waits for the process; it ends with the process.
package child
