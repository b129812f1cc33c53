package broker

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"
)

//go:embed tools-pom.xml
var toolsPom []byte

// toolsVersion names the cache folder of the command-line tools, which are no part of the broker.
const toolsVersion = "kafka-tools-4.3.1-1"

// ConsumerGroups runs Apache Kafka's own kafka-consumer-groups on the broker and returns what it prints. The tool is
// fetched with Maven when it is not in the cache yet.
func ConsumerGroups(ctx context.Context, addrs []string, args ...string) (string, error) {
	dir, err := cached(toolsVersion, func(part string) error { return copyJars(ctx, part, toolsPom) })
	if err != nil {
		return "", fmt.Errorf("fetch Kafka's tools: %w", err)
	}
	cmd := exec.CommandContext(ctx, java(), append([]string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars{dir}.classpath(),
		"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", strings.Join(addrs, ","),
	}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kafka-consumer-groups %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}
