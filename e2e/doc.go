// Package e2e holds what is tested from the outside: the house rules of the repository itself here, and in its folders
// real brokers (broker), real processes that are killed (procs), the whole system on one seed in virtual time (sim), the
// checker of what was seen of either (history), ways to break the code that must be noticed (mutants) and comparisons with
// other software (bench).
// It promises nothing to production code, which must not import it.
package e2e
