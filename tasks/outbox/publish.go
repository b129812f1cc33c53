package outbox

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The pauses of all producing after a failure.
const (
	firstPause = 100 * time.Millisecond // doubles to lastPause
	lastPause  = 5 * time.Second
)

// produce starts what may be in flight.
func (l *loop) produce(now time.Time) {
	l.hand.unpark(now)
	l.metrics.parked.Set(float64(len(l.hand.parked)))
	if l.stopping || l.stale || now.Before(l.resume) {
		return
	}
	for l.hand.flying < l.config.window() {
		r := l.hand.next()
		if r == nil {
			return
		}
		if l.config.Tracer != nil {
			l.produceTraced(r)
			continue
		}
		l.client.Produce(l.flight, record(r.Handoff, r.lane.key), func(_ *kgo.Record, err error) { l.acks.add(r, err) })
	}
}

// land takes what the broker has answered.
func (l *loop) land(now time.Time) {
	l.spare = l.acks.take(l.spare)
	ok, failed := 0, 0
	var reason error
	for _, a := range l.spare {
		switch {
		case a.err == nil:
			ok++
			l.hand.acknowledged(a.row)
		case refused(a.err):
			if !l.hand.refused(a.row, now) {
				l.metrics.published.WithLabelValues(resultFailed).Inc()
				continue
			}
			l.metrics.published.WithLabelValues(resultRefused).Inc()
			l.config.Logger.Error("a handoff is refused by the broker; it is kept and its conversation waits",
				"task", a.row.TaskID, "workspace", a.row.Workspace, "tries", a.row.lane.tries,
				"again_in", a.row.lane.until.Sub(now), "error", a.err)
		default:
			failed++
			reason = a.err
			l.hand.failed(a.row)
		}
	}
	clear(l.spare)
	l.metrics.published.WithLabelValues(resultOK).Add(float64(ok))
	l.metrics.published.WithLabelValues(resultFailed).Add(float64(failed))
	l.pace(ok > 0, reason, now)
}

// pace holds producing back while records do not get through.
func (l *loop) pace(got bool, reason error, now time.Time) {
	if reason == nil {
		if got {
			l.failures = 0
			if before := l.report(&l.publish, nil); before != nil {
				l.config.Logger.Info("records get through again", "topic", l.config.Topic)
			}
		}
		return
	}
	l.stale = l.stale || topicGone(reason)
	if now.Before(l.resume) || l.stopping {
		return // more of the same failure
	}
	l.failures++
	pause := min(firstPause<<min(l.failures-1, 10), lastPause)
	l.resume = now.Add(pause/2 + rand.N(pause/2))
	if before := l.report(&l.publish, reason); before == nil {
		l.config.Logger.Error("records do not get through; their handoffs are kept and tried again",
			"topic", l.config.Topic, "error", reason)
	}
}

// replaceClient starts over when the topic is gone: a client never adopts a topic that was made again, and one that is
// told to forget the topic would number its records anew under the same producer id, so that a broker which still has
// the topic could take new records for repeated ones and acknowledge what it does not write. The old client is closed
// first, since hooks may register metrics for the life of a client. Until then there is none, and nothing is produced.
func (l *loop) replaceClient(spawn func(func()), post func(func())) {
	old := l.client
	l.client = nil
	spawn(func() {
		old.Close()
		post(func() {
			client, err := kgo.NewClient(l.config.producing()...)
			if err != nil { // New has checked the options
				l.config.Logger.Error("no new client for the outbox's topic; nothing is published", "error", err)
				l.report(&l.publish, err)
				return
			}
			l.client, l.stale = client, false
		})
	})
}
