package sim

import (
	"crypto/sha256"
	"net/http"
	"sync"
)

// maxKeys bounds the idempotency keys in memory; the oldest go.
const maxKeys = 100_000

// keys are the idempotency keys in use.
type keys struct {
	mu    sync.Mutex
	byKey map[string]*keyed
	order []*keyed
}

// keyed is the first request under a key.
type keyed struct {
	key  string
	body [sha256.Size]byte // of the path and the body

	mu sync.Mutex
	g  *generation // nil: it has not begun
}

// run says which generation it is. A request without a key is none.
func (k *keyed) run(g *generation) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.g = g
}

func (k *keyed) generation() *generation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.g
}

// claim takes the key of a request. Known is how it is a repetition, empty when it is none; without a key, k is nil.
func (s *Server) claim(set settings, req *http.Request, body []byte) (k *keyed, known string) {
	if set.IdempotencyHeader == "" || req.Header.Get(set.IdempotencyHeader) == "" {
		return nil, ""
	}
	k = &keyed{key: req.Header.Get(set.IdempotencyHeader), body: sha256.Sum256(append([]byte(req.URL.Path+"\n"), body...))}
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	if had := s.keys.byKey[k.key]; had != nil {
		g := had.generation()
		made := g != nil && (g.call.background || g.ready(now()))
		switch {
		case made && set.expired(g.due, now()):
		case had.body != k.body:
			return had, lookupConflict
		case !made:
			return had, lookupInProgress
		default:
			return had, lookupReplay
		}
	}
	if s.keys.byKey == nil {
		s.keys.byKey = map[string]*keyed{}
	}
	s.keys.byKey[k.key] = k
	s.keys.order = append(s.keys.order, k)
	if len(s.keys.order) > maxKeys {
		if old := s.keys.order[0]; s.keys.byKey[old.key] == old {
			delete(s.keys.byKey, old.key)
		}
		s.keys.order[0] = nil
		s.keys.order = s.keys.order[1:]
	}
	return k, ""
}

// repeat answers a repetition: with the same answer, if there is one, and without the faults that it had on its way.
func (s *Server) repeat(w http.ResponseWriter, req *http.Request, set settings, k *keyed, known string, p *protocol) {
	switch known {
	case lookupConflict:
		s.lookups.add(known, k.key, set.IdempotencyConflict)
		writeBody(w, set.IdempotencyConflict, p.refusal(set.IdempotencyConflict, "the key was used with another request"))
		return
	case lookupInProgress:
		s.lookups.add(known, k.key, set.IdempotencyInProgress)
		w.Header().Set("Retry-After", "1")
		writeBody(w, set.IdempotencyInProgress, p.refusal(set.IdempotencyInProgress, "the first request under the key is still running"))
		return
	}
	s.lookups.add(known, k.key, http.StatusOK)
	w.Header().Set("Idempotency-Replayed", "true")
	first := k.generation()
	x := &exchange{s: s, w: w, ctx: req.Context(), g: first, set: set, status: http.StatusOK, over: true}
	switch {
	case first.call.background && first.call.stream:
		x.resume(-1)
	case first.call.background:
		writeBody(w, http.StatusOK, encode(first, first.state(now())))
	default:
		x.g = first.again()
		x.serve()
	}
}

// again is the same answer as it is given the second time.
func (g *generation) again() *generation {
	out := &generation{p: g.p, call: g.call, rule: g.rule, rep: g.rep, n: g.n, id: g.id}
	out.rep.noUsage, out.rep.earlyUsage, out.rule.LineBytes = false, false, 0
	if !g.rule.action().said {
		out.rule.Do, out.rule.Body = doAnswer, nil
	}
	return out
}

// release forgets a key whose request was refused or has no answer: the next under it is the first again.
func (l *keys) release(k *keyed) {
	if k == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[k.key] == k {
		delete(l.byKey, k.key)
	}
}
