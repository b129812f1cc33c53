// Package embedded runs a private Postgres server for one process: for `fencepost dev`, and for tests.
//
// It promises that the server listens on 127.0.0.1 only and wants a random password, that Start finds it ready, and that
// it does not outlive the process that started it, however that process ends. The data stays in Config.DataDir, so that
// the next Start goes on where the last one was; a server that a killed process left on the same directory is stopped
// first.
//
// The binaries are those of the machine where it has any, else a download of github.com/fergusstrange/embedded-postgres,
// kept in the user's cache. Postgres refuses to run as root; for root it runs as another user.
//
// One goroutine belongs to each Server. It is locked to its thread, because the kernel ties "tell the child that its
// parent is gone" to the thread that started the child, and it ends with the server. Stop waits for it.
//
// Not promised: anything about Windows, several servers on one data directory, or an upgrade of a data directory from
// one major version to another, which is refused with a word on what to do.
package embedded
