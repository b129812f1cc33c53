// Mutants breaks the code in ways that must be noticed, one at a time, and requires that the simulation or a named test
// notices: the proof that they can fail. It works on a copy; the checkout is left alone.
//
//	go run ./e2e/mutants                 # all of them
//	go run ./e2e/mutants -run now        # those whose name contains a word
//	go run ./e2e/mutants -v              # with what the tests say
//
// A mutant names the text that it replaces. A test of this package makes sure that each text is still there, once, so
// that the program cannot rot unseen. Mutants of the Postgres statements need what the tests of tasks/postgres do.
package main
