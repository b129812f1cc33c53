package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Calls under way when the ledger is deleted belong to nobody afterwards.
func TestDeleteDuringACall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	_, url := newServer(t, Config{Ledger: path})
	rules(t, url, `[{"match":{"contains":"slow"},"do":"hang"}]`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(ask("slow")))
		if err == nil {
			_, _ = http.DefaultClient.Do(req)
		}
	}()
	until(t, func() bool { return total(t, url).InFlight == 1 })
	request(t, "DELETE", url+"/sim/requests", "")
	cancel()
	<-done
	chat(t, url, ask("after"))
	if list := listed(t, url); len(list) != 1 || list[0].N != 2 || list[0].Content != "after" {
		t.Errorf("%+v", list)
	}
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.close()
	if got := l.total(); got.Requests != 1 || got.InFlight != 0 || l.last != 2 {
		t.Errorf("%+v, last %d", got, l.last)
	}
}

func serveUntilKilled(path string) {
	s, err := New(Config{Ledger: path})
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewServer(s)
	fmt.Println(srv.URL)
	select {}
}

// The ledger's file has every call that arrived before a kill -9, and numbers go on after it.
func TestLedgerSurvivesAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "FENCEPOST_TEST_SIM_LEDGER="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line)
	for i := range 20 {
		chat(t, url, ask(fmt.Sprint("call ", i)))
	}
	rules(t, url, `[{"do":"hang"}]`)
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		chat(t, url, ask("in flight"))
	}()
	until(t, func() bool { return total(t, url).InFlight == 1 })
	cmd.Process.Kill()
	cmd.Wait()
	<-failed
	// A torn last line is what a kill in the middle of a write would leave.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, `{"arrived":{"n":22,"con`)
	f.Close()

	for range 2 { // the second time, the torn line is gone
		s, err := New(Config{Ledger: path})
		if err != nil {
			t.Fatal(err)
		}
		list := s.ledger.after(0, 100)
		if len(list) != 21 || list[20].Content != "in flight" || list[20].Done != "" || list[3].Done != doAnswer || list[3].OutputTokens == 0 {
			t.Errorf("%d calls: %+v", len(list), list)
		}
		if got := s.ledger.total(); got.Requests != 21 || got.InFlight != 0 || got.OutputTokens == 0 {
			t.Errorf("%+v", got)
		}
		if s.ledger.last != 21 {
			t.Errorf("last number %d", s.ledger.last)
		}
		s.Close()
	}
	if err := os.WriteFile(path, []byte("no ledger\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Ledger: path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is no ledger: %v", err)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	l := &ledger{}
	big := strings.Repeat("x", maxContentBytes/100)
	for range 250 {
		if err := l.arrive(&entry{Content: big}); err != nil {
			t.Fatal(err)
		}
	}
	got := l.total()
	if got.Requests != 250 || got.Listed != 100 {
		t.Errorf("%+v", got)
	}
	if list := l.after(0, 1000); len(list) != 100 || list[0].N != 151 {
		t.Errorf("%d listed", len(list))
	}
}

func TestEndOfACallFromBeforeTheDelete(t *testing.T) {
	l := &ledger{}
	e := &entry{}
	if err := errors.Join(l.arrive(e), l.clear(), l.end(e, doAnswer, 200, false, 3, 4)); err != nil {
		t.Fatal(err)
	}
	if got := l.total(); got != (totals{}) {
		t.Errorf("%+v", got)
	}
}
