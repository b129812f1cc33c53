package sim

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/llm"
)

// The other protocol has the same rules, the same bill and the same ledger.
func TestFaultsOfMessages(t *testing.T) {
	_, url := newServer(t, Config{})
	c := llm.NewClient(llm.TransportConfig{})
	for _, act := range actions {
		do := act.word
		if do == doHang || do == doStall { // which end when the client leaves
			continue
		}
		for _, stream := range []bool{false, true} {
			request(t, "DELETE", url+"/sim/requests", "")
			rules(t, url, `[{"do":"`+do+`"}]`)
			body := fmt.Sprintf(`{"model":"m","max_tokens":50,"system":"s","stream":%v,"messages":[{"role":"user","content":"hello world, this is a text of some length"}]}`, stream)
			req, err := http.NewRequest("POST", url+"/v1/messages", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, _, err := c.Do(context.Background(), req)
			if lost := torn(do); (err != nil) != lost {
				t.Errorf("%s: %d %q %v", do, resp.Status, resp.Body, err)
			}
			terminal := bytes.HasSuffix(resp.Body, []byte("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"))
			if whole := !act.lost && do != doNoMarker; stream && terminal != whole {
				t.Errorf("%s: stream %q", do, resp.Body)
			}
			list := listed(t, url)
			if len(list) != 1 || list[0].Done != do || list[0].ClientGone || (list[0].InputTokens == 0) != (do == doStatus) || total(t, url).InFlight != 0 {
				t.Errorf("%s: %+v", do, list)
			}
		}
	}
}

func TestBadMessagesAreListed(t *testing.T) {
	_, url := newServer(t, Config{})
	for _, body := range []string{
		``, `{}`, `{"model":"m","max_tokens":1}`, `{"model":"m","messages":[{"role":"user","content":"c"}]}`,
		`{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"c"}]}`, `{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"c"}]}`,
	} {
		status, out, err := request(t, "POST", url+"/v1/messages", body)
		if err != nil || status != 400 || !bytes.Contains(out, []byte(`"type":"error"`)) || !bytes.Contains(out, []byte("invalid_request_error")) {
			t.Errorf("%q: %d %s %v", body, status, out, err)
		}
	}
	if list := listed(t, url); len(list) != 6 {
		t.Errorf("%+v", list)
	}
}
