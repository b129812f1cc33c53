package sim

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxKept bounds how many answers can be asked for later; the oldest go.
const maxKept = 100_000

func now() time.Time { return time.Now() }

// kept holds the answers that can be asked for later, in memory only.
type kept struct {
	mu    sync.Mutex
	byID  map[string]*generation
	order []*generation // order[head:], oldest first
	head  int
}

func (k *kept) add(g *generation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = map[string]*generation{}
	}
	k.byID[g.id] = g
	k.order = append(k.order, g)
	if len(k.order)-k.head > maxKept {
		delete(k.byID, k.order[k.head].id)
		k.order[k.head] = nil
		k.head++
	}
	if k.head > 1024 && k.head > len(k.order)/2 {
		k.order = append(k.order[:0], k.order[k.head:]...)
		k.head = 0
	}
}

// drop makes g one that was never stored.
func (k *kept) drop(g *generation) {
	if !g.call.store {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID[g.id] == g {
		delete(k.byID, g.id) // the list skips it
	}
}

// shown reports whether g can be found now: a completion once it is whole, a response from its beginning, both after the
// delay and until they are no longer retained.
func shown(g *generation, set settings, now time.Time) bool {
	from := g.due
	if g.p == responses {
		from = g.begun
	} else if !g.ready(now) {
		return false
	}
	if now.Before(from.Add(time.Duration(set.StoreDelay))) {
		return false
	}
	return set.StoreRetention == 0 || now.Before(g.due.Add(time.Duration(set.StoreRetention)))
}

// get returns the answer of that id, nil when it cannot be found.
func (k *kept) get(p *protocol, id string, set settings, now time.Time) *generation {
	k.mu.Lock()
	g := k.byID[id]
	k.mu.Unlock()
	if g == nil || g.p != p || !shown(g, set, now) {
		return nil
	}
	return g
}

// query is what stored completions are asked for by.
type query struct {
	after    string // the id of the last one seen
	model    string
	metadata map[string]string
	limit    int
	newest   bool // first
}

// completions returns those that fit, and whether there are more.
func (k *kept) completions(q query, set settings, now time.Time) (out []*generation, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	behind := q.after == ""
	all := slices.All(k.order[k.head:])
	if q.newest {
		all = slices.Backward(k.order[k.head:])
	}
	for _, g := range all {
		if !behind {
			behind = g.id == q.after
			continue
		}
		if g.p != completions || k.byID[g.id] != g || q.model != "" && g.call.model != q.model || !holds(g.call.metadata, q.metadata) || !shown(g, set, now) {
			continue
		}
		if len(out) == q.limit {
			return out, true
		}
		out = append(out, g)
	}
	return out, false
}

// holds reports whether all pairs of want are in m.
func holds(m, want map[string]string) bool {
	for k, v := range want {
		if got, ok := m[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// find answers a lookup by id that finds nothing, and counts every one.
func (s *Server) find(w http.ResponseWriter, req *http.Request, p *protocol, kind string) (*generation, bool) {
	id := req.PathValue("id")
	if s.failLookup(w, kind, id) {
		return nil, false
	}
	g := s.kept.get(p, id, s.settings.get(), now())
	if g == nil {
		s.lookups.add(kind, id, http.StatusNotFound)
		writeError(w, http.StatusNotFound, "no answer of that id is stored")
		return nil, false
	}
	s.lookups.add(kind, id, http.StatusOK)
	return g, true
}

// storedBody is a stored completion, as it is asked for.
func storedBody(g *generation) completion {
	c := chatBody(g, "").(completion)
	if c.Metadata = g.call.metadata; c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	return c
}

// serveCompletion is GET /v1/chat/completions/{id}.
func (s *Server) serveCompletion(w http.ResponseWriter, req *http.Request) {
	if g, ok := s.find(w, req, completions, lookupGet); ok {
		writeJSON(w, http.StatusOK, storedBody(g))
	}
}

// serveCompletions is GET /v1/chat/completions, by metadata and model.
func (s *Server) serveCompletions(w http.ResponseWriter, req *http.Request) {
	asked := req.URL.Query()
	if s.failLookup(w, lookupList, asked.Encode()) {
		return
	}
	s.lookups.add(lookupList, asked.Encode(), http.StatusOK)
	list, more := s.kept.completions(query{
		after: asked.Get("after"), model: asked.Get("model"), metadata: metadataOf(asked), limit: listLimit(asked), newest: asked.Get("order") == "desc",
	}, s.settings.get(), now())
	out := struct {
		Object  string       `json:"object"`
		Data    []completion `json:"data"`
		FirstID *string      `json:"first_id"`
		LastID  *string      `json:"last_id"`
		HasMore bool         `json:"has_more"`
	}{Object: "list", Data: []completion{}, HasMore: more}
	for _, g := range list {
		out.Data = append(out.Data, storedBody(g))
	}
	if len(list) > 0 {
		out.FirstID, out.LastID = &list[0].id, &list[len(list)-1].id
	}
	writeJSON(w, http.StatusOK, out)
}

// metadataOf reads metadata[key]=value.
func metadataOf(query url.Values) map[string]string {
	out := map[string]string{}
	for name := range query {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			out[strings.TrimSuffix(key, "]")] = query.Get(name)
		}
	}
	return out
}
