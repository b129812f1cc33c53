// Command fencepost turns a chat message into exactly one saved reply. `fencepost dev` runs all of it in one process;
// `fencepost run` runs its roles against your own Kafka, Postgres and provider.
//
// This package is wiring only: one file for each verb, which reads its flags and calls the packages that do the work.
package main
