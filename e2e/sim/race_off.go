//go:build !race

package sim

// raced: this test was built with the race detector, and the one that it starts must be too.
const raced = false
