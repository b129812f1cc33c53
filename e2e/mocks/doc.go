// Package mocks runs a worker against mocks of the providers' interfaces that others have written, and compares what each
// has counted. It is only tests; run.sh runs them, or starts the mocks for a person.
//
// The mocks come from npm. Where npx is not there, or cannot fetch them, the test is skipped and says so.
package mocks
