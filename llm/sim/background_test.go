package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// job is a response as far as these tests look at it.
type job struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	Background bool            `json:"background"`
	Usage      *responsesUsage `json:"usage"`
	Output     []outputItem    `json:"output"`
}

func (j job) text() string {
	if len(j.Output) == 0 || len(j.Output[0].Content) == 0 || j.Output[0].Content[0].Text == nil {
		return ""
	}
	return *j.Output[0].Content[0].Text
}

func respond(t testing.TB, method, url, body string) (int, job) {
	t.Helper()
	var out job
	status, raw, err := request(t, method, url, body)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return status, out
}

const inBackground = `{"model":"m","background":true,"input":"hello, this is a text of some length"}`

// A response in the background goes from queued to its end by itself, is billed once, and is in the ledger as one call.
func TestBackground(t *testing.T) {
	_, url := newServer(t, Config{})
	_, first := respond(t, "POST", url+"/v1/responses", inBackground)
	if first.Status != "queued" || !first.Background || first.Usage != nil || first.Output == nil {
		t.Fatalf("%+v", first)
	}
	until(t, func() bool {
		_, j := respond(t, "GET", url+"/v1/responses/"+first.ID, "")
		return j.Status == "completed"
	})
	_, j := respond(t, "GET", url+"/v1/responses/"+first.ID, "")
	if j.text() != "echo: hello, this is a text of some length" || j.Usage == nil || j.Usage.OutputTokens != tokens(len(j.text())) {
		t.Errorf("%+v", j)
	}
	if e := listed(t, url); len(e) != 1 || e[0].Done != doAnswer || e[0].OutputTokens != j.Usage.OutputTokens || total(t, url).InFlight != 0 {
		t.Errorf("%+v", e)
	}
	rules(t, url, `[{"latency":"1h"}]`)
	_, slow := respond(t, "POST", url+"/v1/responses", inBackground)
	if _, j := respond(t, "GET", url+"/v1/responses/"+slow.ID, ""); j.Status != "queued" || total(t, url).InFlight != 1 {
		t.Errorf("%+v", j)
	}
	rules(t, url, `[{"do":"hang"}]`)
	_, stuck := respond(t, "POST", url+"/v1/responses", inBackground)
	if _, j := respond(t, "GET", url+"/v1/responses/"+stuck.ID, ""); j.Status != "in_progress" || total(t, url).InFlight != 2 {
		t.Errorf("%+v", j)
	}
	for _, body := range []string{
		strings.Replace(inBackground, `"input"`, `"store":false,"input"`, 1), `{"model":"m"}`, `{"model":"m","input":""}`, `{"model":"m","input":[]}`,
		`{"model":"m","input":7}`, `{"input":"x"}`, `{"model":"m","input":"x","max_output_tokens":0}`, `x`,
	} {
		if status, out, _ := request(t, "POST", url+"/v1/responses", body); status != 400 || !bytes.Contains(out, []byte("invalid_request_error")) {
			t.Errorf("%s: %d %s", body, status, out)
		}
	}
}

// Whatever becomes of the connection that began it, the response is made, and paid for once.
func TestBackgroundOutlivesItsConnection(t *testing.T) {
	_, url := newServer(t, Config{})
	for _, do := range []string{doResetBeforeHeaders, doResetAfterHeaders, doGarbage, doCutStream, doCutEvent, doEndEarly, doNoMarker} {
		for _, stream := range []string{"false", "true"} {
			request(t, "DELETE", url+"/sim/requests", "")
			rules(t, url, `[{"do":"`+do+`"}]`)
			_, _, _ = post(t, url+"/v1/responses", strings.Replace(inBackground, `"input"`, `"stream":`+stream+`,"input"`, 1))
			until(t, func() bool { return total(t, url).InFlight == 0 })
			e := listed(t, url)
			if len(e) != 1 || e[0].Done != do || e[0].OutputTokens == 0 {
				t.Fatalf("%s: %+v", do, e)
			}
			if _, j := respond(t, "GET", fmt.Sprintf("%s/v1/responses/resp_sim_%d", url, e[0].N), ""); j.Status != "completed" || j.text() == "" {
				t.Errorf("%s: %+v", do, j)
			}
		}
	}
	for do, want := range map[string]string{doFail: "failed", doRefuse: "completed", doEmpty: "completed"} {
		rules(t, url, `[{"do":"`+do+`"}]`)
		_, j := respond(t, "POST", url+"/v1/responses", inBackground)
		until(t, func() bool {
			_, now := respond(t, "GET", url+"/v1/responses/"+j.ID, "")
			return now.Status == want
		})
	}
	rules(t, url, `[{"do":"status","status":503}]`)
	if status, _, _ := request(t, "POST", url+"/v1/responses", inBackground); status != 503 || total(t, url).InFlight != 0 {
		t.Errorf("%d", status)
	}
}

// Cancelling is told from a disconnect, comes too late or not, and costs by the settings.
func TestCancel(t *testing.T) {
	_, url := newServer(t, Config{})
	rules(t, url, `[{"latency":"1h","input_tokens":10,"output_tokens":20}]`)
	for _, c := range []struct {
		settings string
		status   string
		output   int64
	}{
		{`{}`, "cancelled", 20},
		{`{"bill_on_disconnect":false}`, "cancelled", 0},
		{`{"cancel_wins":false}`, "queued", 0},
	} {
		set(t, url, c.settings)
		request(t, "DELETE", url+"/sim/requests", "")
		_, j := respond(t, "POST", url+"/v1/responses", inBackground)
		for range 2 {
			status, now := respond(t, "POST", url+"/v1/responses/"+j.ID+"/cancel", "")
			if status != 200 || now.Status != c.status || now.Usage != nil {
				t.Errorf("%s: %d %+v", c.settings, status, now)
			}
		}
		if e := listed(t, url); len(e) != 1 || e[0].OutputTokens != c.output || (e[0].Done == "cancelled") != (c.status == "cancelled") {
			t.Errorf("%s: %+v", c.settings, e)
		}
	}
	set(t, url, `{}`)
	rules(t, url, `[]`)
	_, done := respond(t, "POST", url+"/v1/responses", inBackground)
	until(t, func() bool {
		_, j := respond(t, "GET", url+"/v1/responses/"+done.ID, "")
		return j.Status == "completed"
	})
	if status, j := respond(t, "POST", url+"/v1/responses/"+done.ID+"/cancel", ""); status != 200 || j.Status != "completed" {
		t.Errorf("a finished one: %d %+v", status, j)
	}
	_, front := respond(t, "POST", url+"/v1/responses", `{"model":"m","input":"x"}`)
	if status, _, _ := request(t, "POST", url+"/v1/responses/"+front.ID+"/cancel", ""); status != 400 {
		t.Errorf("one that is not in the background: %d", status)
	}
	if status, _, _ := request(t, "POST", url+"/v1/responses/resp_unknown/cancel", ""); status != 404 {
		t.Errorf("an unknown one: %d", status)
	}
}

func sequence(t testing.TB, stream []byte) (numbers []int64, text string) {
	t.Helper()
	sc := bufio.NewScanner(bytes.NewReader(stream))
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string `json:"type"`
			N     int64  `json:"sequence_number"`
			Delta string `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		numbers = append(numbers, e.N)
		text += e.Delta
	}
	return numbers, text
}

// A stream can be read again from every place of it, and says the same.
func TestResume(t *testing.T) {
	_, url := newServer(t, Config{})
	rules(t, url, `[{"latency":"10ms"}]`)
	body := strings.Replace(inBackground, `"input"`, `"stream":true,"input"`, 1)
	_, whole, err := post(t, url+"/v1/responses", body)
	numbers, text := sequence(t, whole)
	if err != nil || text != "echo: hello, this is a text of some length" || len(numbers) < 10 || !bytes.HasSuffix(whole, []byte(wires[2].last)) {
		t.Fatalf("%v: %s", err, whole)
	}
	again := url + "/v1/responses/resp_sim_1?stream=true"
	if _, out, err := request(t, "GET", again, ""); err != nil || !bytes.Equal(out, whole) {
		t.Errorf("%v: %s", err, out)
	}
	for i, n := range numbers {
		if n != int64(i) {
			t.Fatalf("%v", numbers)
		}
		_, out, err := request(t, "GET", fmt.Sprintf("%s&starting_after=%d", again, n), "")
		if err != nil || !bytes.HasSuffix(whole, out) {
			t.Errorf("after %d: %v: %s", n, err, out)
		}
		if rest, _ := sequence(t, out); len(rest) != len(numbers)-i-1 {
			t.Errorf("after %d: %v", n, rest)
		}
	}
	if n := total(t, url); n.Requests != 1 {
		t.Errorf("%+v", n)
	}
	respond(t, "POST", url+"/v1/responses", inBackground)
	for path, want := range map[string]int{"resp_sim_1?stream=true&starting_after=x": 400, "resp_sim_1?stream=true&starting_after=-2": 400, "resp_sim_2?stream=true": 400} {
		if status, out, _ := request(t, "GET", url+"/v1/responses/"+path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, out)
		}
	}
}

// A stream that waits for a response is let go of when that is cancelled, or when the server closes.
func TestStreamOfACancelledResponse(t *testing.T) {
	s, url := newServer(t, Config{})
	rules(t, url, `[{"do":"hang"}]`)
	body := strings.Replace(inBackground, `"input"`, `"stream":true,"input"`, 1)
	for n, stop := range []func(){
		func() { request(t, "POST", url+"/v1/responses/resp_sim_1/cancel", "") },
		func() { s.Close() },
	} {
		resp, err := http.Post(url+"/v1/responses", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(resp.Body)
		if line, err := in.ReadString('\n'); err != nil || line != "event: response.created\n" {
			t.Fatalf("%d: %q %v", n, line, err)
		}
		stop()
		var rest bytes.Buffer
		if _, err := in.WriteTo(&rest); err != nil || bytes.Contains(rest.Bytes(), []byte(`"delta"`)) || bytes.Contains(rest.Bytes(), []byte("response.completed")) {
			t.Errorf("%d: %v: %s", n, err, rest.Bytes())
		}
		resp.Body.Close()
	}
	if _, _, err := request(t, "POST", url+"/v1/responses", inBackground); err == nil {
		t.Error("a closed server begins a response")
	}
}

// What the server's end cuts short stays under way in the ledger, as a kill leaves it.
func TestCloseDuringABackgroundResponse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	s, url := newServer(t, Config{Ledger: path})
	rules(t, url, `[{"do":"hang"}]`)
	respond(t, "POST", url+"/v1/responses", inBackground)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.close()
	if e := l.after(0, 2); len(e) != 1 || e[0].Done != "" {
		t.Errorf("%+v", e)
	}
}
