package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

// A key that is accepted is storable, and its quoted spelling is the same key.
func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"a\"b\\c"`, `"`, `""`, `"a"b"`, `a"b`, "\x7f", strings.Repeat("x", 256), `"a";q=1`} {
		f.Add(s)
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, header string) {
		key, p := ownKey(http.Header{"Idempotency-Key": {header}})
		if p != nil {
			if p.Code != "idempotency_key_invalid" || key != "" {
				t.Fatalf("%q: %v", header, p)
			}
			return
		}
		if !tasks.ValidKey(key) {
			t.Fatalf("%q: accepted as %q", header, key)
		}
		if again, p := ownKey(http.Header{"Idempotency-Key": {`"` + quote.Replace(key) + `"`}}); p != nil || again != key {
			t.Fatalf("%q quoted: %q, %v", key, again, p)
		}
		if !strings.HasPrefix(header, `"`) && key != header {
			t.Fatalf("%q: changed to %q", header, key)
		}
	})
}

func ownKey(h http.Header) (string, *problem) {
	_, key, p := keyOf(h, tasks.OperationMessage)
	return key, p
}

// A body that is accepted is within the limits, has nothing that a store would change, and survives a round trip.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"content":"hi"}`, `{"content":"\ud83d\ude00"}`, `{"content":"\ud83d"}`, `{"content":"\\ud83d"}`, `{"content":"a\u0000"}`, `{}`, `[]`, `{"content":"x"}x`,
		`{"content":"x","temperature":-0,"max_output_tokens":1,"document":{"id":"d"},"metadata":{"a":"b"},"on_ambiguous":"stop","deadline_seconds":5}`,
		"{\"content\":\"\xff\"}", `{"content":"\`, `{"content":"\u12`,
	} {
		f.Add([]byte(s))
	}
	c, err := Config{Store: down{}, Watched: memory.New(memory.Config{}), Keys: noKeys{}, Limits: Limits{MaxContent: 64}}.withDefaults()
	if err != nil {
		f.Fatal(err)
	}
	parse := func(body []byte) (*message, *problem) {
		m, p := parseMessage(body)
		if p == nil {
			p = m.check(c.Limits)
		}
		return m, p
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, p := parse(body)
		if p != nil {
			if p.Field == "" || p.Code != "invalid_request" && p.Code != "too_large" || !utf8.ValidString(p.Detail) {
				t.Fatalf("%q: problem %+v", body, p)
			}
			return
		}
		if len(m.Content) > 64 || strings.TrimSpace(m.Content) == "" || tasks.Clean(m.Content) != m.Content || tasks.Clean(m.System) != m.System {
			t.Fatalf("%q: accepted as %+v", body, m)
		}
		// Half a surrogate pair would have become U+FFFD.
		if strings.ContainsRune(m.Content, utf8.RuneError) && !strings.ContainsRune(string(body), utf8.RuneError) && !strings.Contains(strings.ToLower(string(body)), `\ufffd`) {
			t.Fatalf("%q: changed to %q", body, m.Content)
		}
		written, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if again, p := parse(written); p != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%q: %+v, again %+v, %v", body, m, again, p)
		}
	})
}

// A wait that is accepted is within its limit.
func FuzzWait(f *testing.F) {
	for _, s := range []string{"30s", "30", "0", "-1", "1h", "99999999999", "18446744073709551615", "1e9s", "", "+5", "-0s", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const limit = time.Minute
		d, p := parseWait(s, limit)
		if p != nil {
			if p.Field != "wait" || d != 0 {
				t.Fatalf("%q: %v, %+v", s, d, p)
			}
			return
		}
		if d < 0 || d > limit {
			t.Fatalf("%q: %v", s, d)
		}
	})
}
