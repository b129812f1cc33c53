package procs

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// Proxied describes a process that reaches Kafka, Postgres and the model through proxies of its own, so that what it
// says and hears can be delayed, lost and cut while all others go on.
func (w *World) Proxied(name, roles string, flags ...string) *Node {
	w.t.Helper()
	if len(w.Brokers) != 1 {
		w.t.Fatalf("a proxy stands in for one broker; there are %d", len(w.Brokers))
	}
	database, err := url.Parse(w.PostgresURL)
	if err != nil {
		w.t.Fatal(err)
	}
	port := database.Port()
	if port == "" {
		port = "5432"
	}
	kafka := listen(w.t, proxy.Kafka, w.Brokers[0])
	postgres := listen(w.t, proxy.Postgres, database.Hostname()+":"+port)
	model := listen(w.t, proxy.Raw, strings.TrimPrefix(w.Model.URL, "http://"))
	database.Host = postgres.Addr()
	query := database.Query()
	query.Set("sslmode", "disable") // the proxy reads along
	database.RawQuery = query.Encode()
	n := w.node(name, roles, kafka.Addr(), database.String(), "http://"+model.Addr(), flags)
	n.Kafka, n.Postgres, n.LLM = kafka, postgres, model
	return n
}

// Heal ends every fault of a proxied node's connections.
func (n *Node) Heal() {
	for _, p := range []*proxy.Proxy{n.Kafka, n.Postgres, n.LLM} {
		p.Heal()
	}
}

func listen(t testing.TB, protocol proxy.Protocol, target string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Listen(protocol, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("proxy: %v", err)
		}
	})
	return p
}
