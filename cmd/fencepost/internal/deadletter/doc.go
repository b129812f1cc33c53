// Package deadletter reads the dead-letter topic and puts letters back into the topic that they came from.
//
// It promises to join no group and to move no offset; to read no further than the ends that the topic had when it began;
// and to report a letter as put back only when the brokers have acknowledged it. Nothing takes a letter out of its topic
// but retention: one that is put back twice is two records for one task, of which the task takes one.
//
// What a letter holds comes from whoever may write to the topic: nothing of it is trusted, and everything of it may be
// missing. It starts no goroutine of its own.
package deadletter
