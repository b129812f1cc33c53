package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func ask2store(content, metadata string) string {
	return fmt.Sprintf(`{"model":"m","store":true,"metadata":%s,"messages":[{"role":"user","content":%q}]}`, metadata, content)
}

// page is a list of stored completions.
type page struct {
	Data    []completion `json:"data"`
	FirstID string       `json:"first_id"`
	LastID  string       `json:"last_id"`
	HasMore bool         `json:"has_more"`
}

func (p page) ids() (out []string) {
	for _, c := range p.Data {
		out = append(out, c.ID)
	}
	return out
}

func stored(t testing.TB, url, query string) (out page) {
	t.Helper()
	status, body, err := request(t, "GET", url+"/v1/chat/completions?"+query, "")
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err != nil || status != 200 {
		t.Fatalf("%d %v in %s", status, err, body)
	}
	return out
}

func seen(t testing.TB, url string) (kinds []string) {
	t.Helper()
	var list []lookup
	_, body, err := request(t, "GET", url+"/sim/lookups", "")
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		kinds = append(kinds, fmt.Sprint(l.Kind, " ", l.Status))
	}
	return kinds
}

// A completion is stored when that was asked for, is found by its id and by all of its metadata, and looking generates
// nothing.
func TestStoredCompletions(t *testing.T) {
	_, url := newServer(t, Config{})
	chat(t, url, ask("not stored"))
	for i := range 5 {
		chat(t, url, ask2store(fmt.Sprint("call ", i), fmt.Sprintf(`{"op":"%d","half":"%d"}`, i, i/3)))
	}
	if got := stored(t, url, "metadata[op]=3"); len(got.Data) != 1 || *got.Data[0].Choices[0].Message.Content != "echo: call 3" || got.Data[0].Metadata["half"] != "1" ||
		got.Data[0].Usage == nil || got.FirstID != got.LastID {
		t.Errorf("%+v", got)
	}
	for query, want := range map[string][]string{
		"":                                 {"2", "3", "4", "5", "6"},
		"limit=2":                          {"2", "3"},
		"limit=2&after=chatcmpl-sim-3":     {"4", "5"},
		"limit=2&order=desc":               {"6", "5"},
		"after=chatcmpl-sim-5&order=desc":  {"4", "3", "2"},
		"after=chatcmpl-sim-6":             nil,
		"after=unknown":                    nil,
		"metadata[half]=0":                 {"2", "3", "4"},
		"metadata[half]=0&metadata[op]=1":  {"3"},
		"metadata%5Bhalf%5D=1&limit=1":     {"5"},
		"metadata[half]=1&metadata[op]=1":  nil,
		"metadata[none]=":                  nil,
		"model=m&metadata[op]=4":           {"6"},
		"model=another&metadata[op]=4":     nil,
		"limit=0&metadata[op]=4&order=asc": {"6"},
	} {
		got := stored(t, url, query).ids()
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], completions.prefix)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if !stored(t, url, "limit=4").HasMore || stored(t, url, "limit=5").HasMore {
		t.Error("whether there are more")
	}
	for id, want := range map[string]int{"chatcmpl-sim-2": 200, "chatcmpl-sim-1": 404, "chatcmpl-sim-99": 404, "x": 404} {
		if status, out, _ := request(t, "GET", url+"/v1/chat/completions/"+id, ""); status != want {
			t.Errorf("%s: %d %s", id, status, out)
		}
	}
	if n := total(t, url); n.Requests != 6 || n.Lookups != int64(len(seen(t, url))) || n.Lookups < 20 {
		t.Errorf("%+v", n)
	}
	if status, out := chat(t, url, ask2store("c", `{"k":"`+strings.Repeat("v", 513)+`"}`)); status != 400 {
		t.Errorf("a long value: %d %s", status, out)
	}
}

// When a stored answer can be found is the settings' to say: the delay, the retention, and failing lookups.
func TestWhenAnAnswerIsFound(t *testing.T) {
	_, url := newServer(t, Config{})
	chat(t, url, ask2store("hello", `{"op":"1"}`))
	request(t, "POST", url+"/v1/responses", `{"model":"m","input":"hello"}`)
	request(t, "POST", url+"/v1/responses", `{"model":"m","input":"hello","store":false}`)
	for _, c := range []struct {
		settings         string
		chat, list, resp int
	}{
		{`{}`, 200, 1, 200},
		{`{"store_delay":"1h"}`, 404, 0, 404},
		{`{"store_retention":"1h"}`, 200, 1, 200},
		{`{"store_retention":"1ns"}`, 404, 0, 404},
	} {
		set(t, url, c.settings)
		status, _, _ := request(t, "GET", url+"/v1/chat/completions/chatcmpl-sim-1", "")
		list := len(stored(t, url, "metadata[op]=1").Data)
		resp, _, _ := request(t, "GET", url+"/v1/responses/resp_sim_2", "")
		if status != c.chat || list != c.list || resp != c.resp {
			t.Errorf("%s: %d, %d, %d", c.settings, status, list, resp)
		}
	}
	set(t, url, `{"fail_lookups":2}`)
	for _, want := range []int{503, 503, 200} {
		if status, _, _ := request(t, "GET", url+"/v1/responses/resp_sim_2", ""); status != want {
			t.Errorf("%d, want %d", status, want)
		}
	}
	for _, path := range []string{"/v1/responses/resp_sim_3", "/v1/responses/chatcmpl-sim-1", "/v1/chat/completions/resp_sim_2"} {
		if status, _, _ := request(t, "GET", url+path, ""); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// An answer that its client did not wait for is stored once it is made, unless the settings say otherwise; one that was
// refused is not.
func TestAbandonedAnswers(t *testing.T) {
	_, url := newServer(t, Config{})
	for _, c := range []struct {
		settings, rule string
		want           int
	}{
		{`{}`, `{"do":"stall"}`, 1},
		{`{"store_abandoned":false}`, `{"do":"stall"}`, 0},
		{`{"bill_on_disconnect":false}`, `{"do":"stall"}`, 0},
		{`{}`, `{"latency":"1h"}`, 0}, // not yet
		{`{}`, `{"do":"hang"}`, 0},
	} {
		set(t, url, c.settings)
		rules(t, url, "["+c.rule+"]")
		op := c.settings + c.rule
		metadata, err := json.Marshal(map[string]string{"op": op})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(ask2store("hello", string(metadata))))
			if err != nil {
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				<-ctx.Done()
				resp.Body.Close()
			}
		}()
		until(t, func() bool { return total(t, url).InFlight == 1 })
		cancel()
		<-done
		until(t, func() bool { return total(t, url).InFlight == 0 })
		found := 0
		for _, c := range stored(t, url, "limit=100").Data {
			if c.Metadata["op"] == op {
				found++
			}
		}
		if found != c.want {
			t.Errorf("%s %s: %d found", c.settings, c.rule, found)
		}
	}
	set(t, url, `{}`)
	for _, rule := range []string{`{"do":"reset_before_headers"}`, `{"do":"garbage"}`, `{"do":"status","status":429}`} {
		rules(t, url, "["+rule+"]")
		_, _, _ = post(t, url+"/v1/chat/completions", ask2store("hello", `{"op":"lost"}`))
	}
	if n := len(stored(t, url, "metadata[op]=lost").Data); n != 2 {
		t.Errorf("%d lost answers are found", n)
	}
}

func TestKeptIsBounded(t *testing.T) {
	k := &kept{}
	for i := range maxKept + 10 {
		k.add(&generation{p: responses, id: fmt.Sprint(i)})
	}
	if k.get(responses, "9", settings{}, now()) != nil || k.get(responses, "10", settings{}, now()) == nil || len(k.byID) != maxKept {
		t.Errorf("%d kept", len(k.byID))
	}
	l := &lookups{}
	for range maxLookups + 10 {
		l.add(lookupGet, "", 200)
	}
	if n := len(l.all()); l.count() != maxLookups+10 || n > maxLookups || n < maxLookups/2 {
		t.Errorf("%d listed of %d", n, l.count())
	}
}
