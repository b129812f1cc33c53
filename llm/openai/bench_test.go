package openai_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
	"github.com/fencepost/fencepost/llm/sim"
)

// BenchmarkCall is adapter and simulator, with its ledger in a file, on the same cores.
func BenchmarkCall(b *testing.B) {
	for name, keep := range map[string]time.Duration{"connection-per-call": 0, "kept": time.Second} {
		b.Run(name, func(b *testing.B) {
			s, err := sim.New(sim.Config{Ledger: filepath.Join(b.TempDir(), "ledger")})
			if err != nil {
				b.Fatal(err)
			}
			srv := httptest.NewServer(s)
			defer srv.Close()
			defer s.Close()
			p, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", HTTP: llm.TransportConfig{KeepAlive: keep}})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "a message of a few words"}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkProvider is the simulated model in process.
func BenchmarkProvider(b *testing.B) {
	s, err := sim.New(sim.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p := s.Provider()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "a message of a few words"}); err != nil {
			b.Fatal(err)
		}
	}
}
