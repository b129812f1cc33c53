package lag

import (
	"slices"
	"sync"
	"time"
)

// maxSamples bounds a History, whatever the number of partitions: about 20 MB.
const maxSamples = 200_000

// minSamples of each partition are kept even then: fewer would not be a window.
const minSamples = 30

// History keeps samples of each partition of one topic and judges reports by them. It is safe for concurrent use.
type History struct {
	rules       Rules
	every, keep time.Duration

	mu         sync.Mutex
	topic      [16]byte
	partitions map[int32][]Sample // oldest first
	latest     Report
}

// NewHistory keeps a sample of each partition every so often for a time: 10 s and an hour, say. Reports that come in
// between are judged and not kept. keep 0: what the rules look at.
func NewHistory(rules Rules, every, keep time.Duration) *History {
	rules = rules.withDefaults()
	return &History{rules: rules, every: every, keep: max(keep, rules.window()+every), partitions: make(map[int32][]Sample)}
}

// Add judges a report by the samples before it and returns it. A topic that was made again begins anew.
func (h *History) Add(r Report) Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.TopicID != h.topic {
		h.topic, h.partitions = r.TopicID, make(map[int32][]Sample)
	}
	r.Partitions = slices.Clone(r.Partitions)
	there := make(map[int32]bool, len(r.Partitions))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		there[p.Partition] = true
		kept := h.partitions[p.Partition]
		s := sampleOf(&r, p)
		if p.Lag >= 0 {
			judge(p, append(h.window(kept, r.At), s), h.rules)
		}
		s.Status = p.Status
		if n := len(kept); n == 0 || r.At.Sub(kept[n-1].At) >= h.every {
			h.partitions[p.Partition] = h.trim(append(kept, s), len(r.Partitions))
		}
	}
	for n := range h.partitions {
		if !there[n] {
			delete(h.partitions, n)
		}
	}
	r.summarize()
	h.latest = r
	return r
}

// window is the samples that the judgement looks at, without those that could not be read.
func (h *History) window(kept []Sample, now time.Time) []Sample {
	// One sample from before the window makes its span at least as long as the bounds.
	from := len(kept)
	for from > 0 && now.Sub(kept[from-1].At) <= h.rules.window() {
		from--
	}
	var w []Sample
	for _, s := range kept[max(0, from-1):] {
		if s.Lag >= 0 && now.Sub(s.At) <= 2*h.rules.window() && now.After(s.At) {
			w = append(w, s)
		}
	}
	return w
}

// trim lets go of what is too old or too much.
func (h *History) trim(list []Sample, partitions int) []Sample {
	most := max(minSamples, maxSamples/max(1, partitions))
	now := list[len(list)-1].At
	drop := 0
	for drop < len(list) && (now.Sub(list[drop].At) > h.keep || len(list)-drop > most) {
		drop++
	}
	return slices.Delete(list, 0, drop)
}

// Latest is the last report that was added, as it was judged; false before the first.
func (h *History) Latest() (Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest, !h.latest.At.IsZero()
}

// Samples are those of one partition, oldest first.
func (h *History) Samples(partition int32) []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.partitions[partition])
}

// All are the samples of every partition, oldest first.
func (h *History) All() map[int32][]Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[int32][]Sample, len(h.partitions))
	for n, list := range h.partitions {
		all[n] = slices.Clone(list)
	}
	return all
}
