// Package broker is how tests get a real Apache Kafka. It promises an address that answers, or a failed test: a run
// without a broker never passes by skipping.
//
// Where the broker comes from, first match wins:
//
//  1. FENCEPOST_TEST_KAFKA, a comma-separated list of addresses. Only for Shared: a test that stops or configures its
//     broker (Start) always gets one of its own.
//  2. testcontainers, in test binaries that import e2e/broker/container, where a Docker engine answers.
//  3. Apache Kafka's own jars (pom.xml), fetched once with Maven into the user's cache and run with the machine's Java 17.
//
// FENCEPOST_TEST_KAFKA_MODE=jars or =container asks for 2 or 3 and fails where it cannot be had.
// FENCEPOST_TEST_KAFKA_CACHE moves the cache of jars.
//
// A broker listens on 127.0.0.1 only, is a single KRaft node, and is tuned for short tests: no initial rebalance
// delay, session timeouts from 1 s, both group protocols, a killed node may come back after 2 s.
//
// Ownership: Start's broker belongs to its test and ends with it. Shared's broker belongs to the test binary; it ends
// in Main, or, in a binary whose TestMain does not use Main, with the process (the kernel kills it; the next start of a
// broker removes its files). Each JVM has one goroutine, which holds its OS thread and waits for the process; Close
// waits for that goroutine. Nothing here is promised to production code.
package broker
