// Package cli is what every verb of the command shares: streams, output formats, errors with exit codes and hints, and
// configuration from flags, environment and a file. It knows no verb and none of the product's packages.
//
// Stdout carries data only; words for people, logs and errors go to stderr. It starts no goroutine.
package cli
