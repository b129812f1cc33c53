// Package dev is what `fencepost dev` puts in the place of the outside world: a Kafka in this process (kfake), a private
// Postgres, a simulated model behind real HTTP, and the directory that keeps their data.
//
// With a directory of one's own, everything that was acknowledged is on disk, so that after kill -9 the same command goes
// on where it was. Without one the data is in a temporary directory and goes with the process.
//
// Everything listens on 127.0.0.1. One process uses a directory at a time; the kernel's lock on a file in it says so, and
// ends with the process however that ends.
package dev
