// Package pgtest gives each test a Postgres database of its own.
//
// The server is the one of the environment variable FENCEPOST_TEST_POSTGRES_URL (a superuser's, or that of a role that
// may create databases), else a private one that is started once for the test binary and ends with it. The private one
// runs without fsync: it is for what statements do, not for what survives a crash of the machine or for how fast they
// are. Without any Postgres the test fails; it never skips.
//
// Databases are copies of a template that is migrated once for each set of migrations, so that one takes some
// milliseconds. A test's database is dropped when the test ends.
//
// The private server has one goroutine, which lives until the binary ends; tests that look for leaks pass IgnoreServer.
package pgtest
