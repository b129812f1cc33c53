package sim

import (
	"bytes"
	"testing"
)

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
