package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencepost/fencepost/tasks"
)

// nearCap is the part of a budget from which on it counts as near its cap.
const nearCap = 0.8

// moneyCollector reads what today has cost, where the lag is read. Workspaces are no label: there may be any number.
type moneyCollector struct {
	store interface {
		SpentToday(ctx context.Context) (tasks.SpentToday, error)
		Budgets(ctx context.Context) ([]tasks.Budgeted, error)
	}
	elected func() bool

	spent, unknown, unpriced, budgets *prometheus.Desc
}

func newMoneyCollector(c moneyCollector) *moneyCollector {
	c.spent = prometheus.NewDesc("fencepost_spend_today_usd", "What is known of today's spending (UTC) in all workspaces, in dollars. From one process of an installation.", nil, nil)
	c.unknown = prometheus.NewDesc("fencepost_spend_today_unknown_attempts", "Attempts of today that may have been charged, and of which nothing is known.", nil, nil)
	c.unpriced = prometheus.NewDesc("fencepost_spend_today_unpriced_attempts", "Attempts of today whose tokens are known and whose amount is not.", nil, nil)
	c.budgets = prometheus.NewDesc("fencepost_budgets", "Workspaces with a budget, by how much of the day's is spent or reserved: below 80 % (open), near its cap, or exhausted.", []string{"state"}, nil)
	return &c
}

// Describe implements prometheus.Collector.
func (c *moneyCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.spent, c.unknown, c.unpriced, c.budgets} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Without an answer there is no series: 0 would look like a day without calls.
func (c *moneyCollector) Collect(to chan<- prometheus.Metric) {
	if !c.elected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if today, err := c.store.SpentToday(ctx); err == nil {
		gauge(c.spent, float64(today.Total.PicoUSD)/1e12)
		gauge(c.unknown, float64(today.Total.UnknownAttempts))
		gauge(c.unpriced, float64(today.Total.UnpricedAttempts))
	}
	list, err := c.store.Budgets(ctx)
	if err != nil {
		return
	}
	states := map[string]int{"open": 0, "near": 0, "exhausted": 0}
	for _, b := range list {
		switch used := float64(b.Spent) + float64(b.Reserved); {
		case used >= float64(b.PerDay):
			states["exhausted"]++
		case used >= nearCap*float64(b.PerDay):
			states["near"]++
		default:
			states["open"]++
		}
	}
	for state, n := range states {
		gauge(c.budgets, float64(n), state)
	}
}
