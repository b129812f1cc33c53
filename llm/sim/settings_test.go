package sim

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	_, url := newServer(t, Config{})
	get := func() (out settings) {
		t.Helper()
		_, body, err := request(t, "GET", url+"/sim/settings", "")
		if err == nil {
			err = json.Unmarshal(body, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if get() != defaultSettings() {
		t.Errorf("%+v", get())
	}
	set(t, url, `{"bill_on_disconnect":false,"store_delay":"2s"}`)
	for body, says := range map[string]string{
		``:                                   "object",
		`[]`:                                 "object",
		`{} {}`:                              "follows",
		`{"bill":true}`:                      `unknown field \"bill\"`,
		`{"store_delay":5}`:                  "1.5s",
		`{"store_delay":"-1s"}`:              "-1s",
		`{"store_retention":"100000h"}`:      "100000h",
		`{"fail_lookups":-1}`:                "fail_lookups",
		`{"idempotency_header":"a b"}`:       "header",
		`{"idempotency_retention":"0s"}`:     "idempotency_retention",
		`{"idempotency_in_progress":200}`:    "status 200",
		`{"idempotency_conflict":99}`:        "status 99",
		strings.Repeat(" ", maxRulesBody+10): "too large",
	} {
		status, out, err := request(t, "PUT", url+"/sim/settings", body)
		if err != nil || status < 400 || !bytes.Contains(out, []byte(says)) {
			t.Errorf("%.60q: %d %s %v; want %q", body, status, out, err, says)
		}
	}
	want := defaultSettings()
	want.BillOnDisconnect, want.StoreDelay = false, 2e9
	if get() != want {
		t.Errorf("a bad word changed the settings in force: %+v", get())
	}
	if set(t, url, `{}`); get() != defaultSettings() {
		t.Errorf("what is not said is not reset: %+v", get())
	}
}
