package outbox

import (
	"context"
	"time"
)

// tenure is what an Acquire answered. It ends by our own clock, counted from before the question.
type tenure struct {
	shards []int16
	until  time.Time
}

// keep renews the leases until ctx is done and tells heard of each answer. It asks ten times in a lease: shards move to
// a new dispatcher as fast as that.
func (d *Dispatcher) keep(ctx context.Context, heard func(tenure)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		asked := time.Now()
		shards, err := d.acquire(ctx)
		before := d.report(&d.leases, err)
		switch {
		case err == nil:
			heard(tenure{shards, asked.Add(d.config.Lease * 9 / 10)})
		case ctx.Err() == nil && (before == nil || before == errStarting):
			d.config.Logger.Warn("leases of the outbox's shards are not renewed; trying again", "error", err)
		}
		timer.Reset(d.config.Lease / 10)
	}
}

// acquire is not cancelled by the end of ctx: an Acquire that the database carries out after Resign would leave the
// shards unread for a lease.
func (d *Dispatcher) acquire(ctx context.Context) ([]int16, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.config.Lease/3)
	defer cancel()
	return d.config.Store.Acquire(ctx, d.config.Owner, d.config.Lease)
}
