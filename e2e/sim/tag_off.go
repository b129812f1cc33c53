//go:build !synctests

package sim

const durable = false
