package dev

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kafka is a broker in this process.
type Kafka struct {
	cluster *kfake.Cluster
	address string
}

// StartKafka starts it on the directory, at the address it had there last time. What it acknowledges is on disk.
func StartKafka(d *Dir, log *slog.Logger) (*Kafka, error) {
	path := d.Path("kafka")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	start := func(port int) (*kfake.Cluster, error) {
		opts := []kfake.Opt{kfake.DataDir(path), kfake.NumBrokers(1), kfake.ClusterID("fencepost-dev")}
		if !d.Temporary() {
			opts = append(opts, kfake.SyncWrites())
		}
		if port != 0 {
			opts = append(opts, kfake.Ports(port))
		}
		return kfake.NewCluster(opts...)
	}
	port := d.Port("kafka")
	if port != 0 && !free(port) {
		log.Warn("Kafka's port of the last start is taken; it gets another one", "port", port)
		port = 0
	}
	cluster, err := start(port)
	if err != nil {
		return nil, fmt.Errorf("in-process Kafka: %w", err)
	}
	k := &Kafka{cluster: cluster, address: cluster.ListenAddrs()[0]}
	_, text, err := net.SplitHostPort(k.address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err == nil {
		err = d.RememberPort("kafka", port)
	}
	if err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Address is host:port of the broker.
func (k *Kafka) Address() string { return k.address }

// Close stops it.
func (k *Kafka) Close() { k.cluster.Close() }

// free reports whether a port of 127.0.0.1 can be listened on.
func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
