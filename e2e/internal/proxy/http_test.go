package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// names collects what a rule is asked about.
type names struct {
	mu  sync.Mutex
	all []string
}

func (n *names) rule(action Action) Rule {
	return func(request string) Action {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.all = append(n.all, request)
		return action
	}
}

func (n *names) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// Every request has its name, kept connection or not, with a length or in chunks, and arrives as it was sent.
func TestHTTPRequestsAreToldApart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer server.Close()
	p := listen(t, HTTP, server.Listener.Addr().String())
	var seen names
	p.Rule(seen.rule(Forward))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, body := range []io.Reader{strings.NewReader("one"), io.MultiReader(strings.NewReader("two")), strings.NewReader("")} {
		resp, err := client.Post("http://"+p.Addr()+"/v1?x=y", "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		echoed, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || len(echoed) != 3 && len(echoed) != 0 {
			t.Errorf("%d %q, %v", resp.StatusCode, echoed, err)
		}
	}
	want := []string{"POST /v1?x=y HTTP/1.1\none", "POST /v1?x=y HTTP/1.1\n3\r\ntwo\r\n0\r\n\r\n", "POST /v1?x=y HTTP/1.1\n"}
	if got := seen.list(); !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// HTTP/2 and tunnels are named by how they begin, and then passed on.
func TestHTTPOfAnotherKindIsNamedAndPassedOn(t *testing.T) {
	p := listen(t, HTTP, echo(t))
	var seen names
	p.Rule(seen.rule(Forward))
	for _, begin := range []string{"PRI * HTTP/2.0\r\n", "CONNECT host:443 HTTP/1.1\r\nHost: host\r\n\r\n"} {
		c := dial(t, p)
		said := begin + "\x00\xff\n\n"
		if _, err := io.WriteString(c, said); err != nil {
			t.Fatal(err)
		}
		heard := make([]byte, len(said))
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadFull(c, heard); err != nil || string(heard) != said {
			t.Errorf("%q: heard %q, %v", begin, heard, err)
		}
	}
	if got := seen.list(); !slices.Equal(got, []string{"PRI * HTTP/2.0\n", "CONNECT host:443 HTTP/1.1\n"}) {
		t.Errorf("requests %q", got)
	}
}

// A lost request never arrives; a lost answer is that of a request which did.
func TestHTTPRequestsAndAnswersAreLost(t *testing.T) {
	for action, arrives := range map[Action]int{LoseRequest: 0, LoseAnswer: 1} {
		var arrived names
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived.rule(Forward)(r.Method) }))
		p := listen(t, HTTP, server.Listener.Addr().String())
		p.Rule(func(string) Action { return action })
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v: read %d bytes and %v, want a reset", action, n, err)
		}
		c.Close()
		server.Close()
		if n := len(arrived.list()); n != arrives {
			t.Errorf("%v: %d requests have arrived, want %d", action, n, arrives)
		}
	}
}
