package consumer

import (
	"sync"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// maxUnpriced bounds the models a warning is kept for: their names come from servers.
const maxUnpriced = 1000

// unpriced remembers which models were said to have no price.
type unpriced struct {
	mu   sync.Mutex
	said map[string]struct{}
}

// first reports whether nothing was said of the model yet.
func (u *unpriced) first(model string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.said[model]; ok || len(u.said) >= maxUnpriced {
		return false
	}
	if u.said == nil {
		u.said = map[string]struct{}{}
	}
	u.said[model] = struct{}{}
	return true
}

// price completes the ledger's part of an attempt whose usage is known, accepted or not. Without a price the amount stays
// unknown, and never becomes 0 (I7).
func (c *Consumer) price(call *tasks.Call, u *llm.Usage) {
	if u == nil || c.cfg.Price == nil {
		return
	}
	if pico, version, ok := c.cfg.Price(c.provider.Name(), call.Model, *u); ok {
		call.PicoUSD, call.PriceVersion = &pico, version
		return
	}
	if c.unpriced.first(call.Model) {
		c.log.Warn("no price for a model, what its calls cost is unknown", "provider", c.provider.Name(), "model", call.Model)
	}
}
