// Package migrations holds the schema of the Postgres store and applies it. It promises that concurrent calls of Up are
// safe (one applies, the others wait and find nothing to do), that Status and Check change nothing, and that schema.sql
// is what the migrations make of an empty database.
//
// Files are applied in the order of the number in their name, each in a transaction of its own, and are never edited
// once released. It owns no goroutine beyond a call, and never migrates downwards.
package migrations
