// Package container lets e2e/broker run Kafka with testcontainers. A test binary that wants it imports it for its
// effect:
//
//	import _ "github.com/fencepost/fencepost/e2e/broker/container"
//
// It is a package of its own because testcontainers brings some fifty modules that no other test is to compile.
//
// The image is FENCEPOST_TEST_KAFKA_IMAGE, one with the layout of confluentinc/confluent-local (8.0 or later, for both
// group protocols). When that is not set, build.sh makes one of the machine's own JDK and the jars that e2e/broker
// fetched: no registry is needed, and both ways run the same Kafka. engine.sh starts a Docker engine where none
// answers, and prints the environment that testcontainers wants.
package container
