//go:build synctests

package sim

// durable: franz-go waits for channels where it would wait for mutexes, so that virtual time can go on.
const durable = true
