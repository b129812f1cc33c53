// Package doctor looks at what an installation stands on (its settings, Kafka, Postgres, the provider) and says of each
// thing whether it fits, what was found, and what to change. It promises to change nothing, to make no call that is paid
// for, to bound every part by its own deadline, and to go on with the other parts when one cannot be reached.
//
// Every part gives the same checks in the same order whatever it finds, so that a script can look for one by name: what
// could not be looked at is "unknown", never "ok". What is read of the outside is kept apart from how it is judged: the
// judgement is functions of facts, which is what the tests go through.
package doctor
