package node

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// lastSpans is how long a stop waits for a collector to take the last of the spans.
const lastSpans = 3 * time.Second

// tracer is what the roles are given: nil, and no interface that holds nil, when tracing is off.
func (n *Node) tracer() tasks.Tracer {
	if n.traces == nil {
		return nil
	}
	return n.traces
}

func (n *Node) closeTraces() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := n.traces.Close(ctx); err != nil {
		n.config.Logger.Warn("the last spans could not be sent", "error", err)
	}
}
