package consumer_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// What a call cost is in the ledger whether or not its answer was accepted; a model without a price has an unknown
// amount and one warning, however often it is called.
func TestI7_CallsArePriced(t *testing.T) {
	w := newWorld(t, 1)
	usage := llm.Usage{InputTokens: 1, CachedInputTokens: 20, CacheWriteTokens: 300, OutputTokens: 5, ReasoningTokens: 4}
	w.model.on("cached", func(context.Context, int) (llm.Answer, error) {
		a := answer("yes")
		a.Usage, a.Model = &usage, "listed-2026-01-02"
		return a, nil
	})
	w.model.on("refused", func(context.Context, int) (llm.Answer, error) {
		return llm.Answer{}, &llm.Failure{Class: llm.RejectedOutput, Message: "no", Report: llm.Report{WireRequests: 1, Usage: &usage}}
	})
	w.model.on("no usage", func(context.Context, int) (llm.Answer, error) {
		a := answer("yes")
		a.Usage = nil
		return a, nil
	})
	logs := &syncBuffer{}
	w.start("w1", func(c *consumer.Config) {
		c.Logger = slog.New(slog.NewTextHandler(logs, nil))
		c.Price = func(provider, model string, u llm.Usage) (int64, string, bool) {
			if provider != "model" || !strings.HasPrefix(model, "listed") {
				return 0, "", false
			}
			return u.InputTokens + u.CachedInputTokens*1000 + u.CacheWriteTokens*1_000_000 + u.OutputTokens*1_000_000_000_000, "v7", true
		}
	})
	const listed, unknown = "listed", int64(-1)
	type sent struct {
		id     uuid.UUID
		name   string
		status tasks.Status
		pico   int64
		input  int64
	}
	var all []sent
	send := func(content, model string, status tasks.Status, pico, input int64) {
		id := w.send(0, uuid.NewString(), content, func(s *tasks.Submission) { s.Request.Model, s.MaxAttempts = model, 1 })
		all = append(all, sent{id, content + " by " + model, status, pico, input})
	}
	send("plain", listed, tasks.StatusCompleted, 5_000_000_000_003, 3)
	send("cached", listed, tasks.StatusCompleted, 5_000_300_020_001, 321)
	send("refused", listed, tasks.StatusFailed, 5_000_300_020_001, 321)
	send("no usage", listed, tasks.StatusCompleted, unknown, 0)
	send("plain", "strange", tasks.StatusCompleted, unknown, 3)
	send("plain again", "strange", tasks.StatusCompleted, unknown, 3)
	send("plain", "stranger", tasks.StatusCompleted, unknown, 3)
	for _, s := range all {
		w.finished(s.id, s.status)
		cost := w.task(s.id).Cost
		if s.pico == unknown && cost.PicoUSD != nil || s.pico != unknown && (cost.PicoUSD == nil || *cost.PicoUSD != s.pico) || cost.InputTokens != s.input {
			t.Errorf("%s: %+v, want %d picodollars and %d tokens of input", s.name, cost, s.pico, s.input)
		}
	}
	attempts, err := w.tasks.Attempts(t.Context(), workspace, all[1].id)
	if err != nil || len(attempts) != 1 || *attempts[0].CachedInputTokens != 20 || *attempts[0].ReasoningTokens != 4 || attempts[0].PriceVersion != "v7" {
		t.Errorf("ledger %+v, %v", attempts, err)
	}
	for _, model := range []string{"strange", "stranger"} {
		if n := strings.Count(logs.String(), "no price for a model, what its calls cost is unknown\" component=consumer provider=model model="+model+"\n"); n != 1 {
			t.Errorf("%d warnings for %s\n%s", n, model, logs)
		}
	}
	if n := strings.Count(logs.String(), "no price"); n != 2 {
		t.Errorf("%d warnings", n)
	}
}
