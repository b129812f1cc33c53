package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Look is how a tab looks at pages.
type Look struct {
	Width, Height int
	Phone         bool // touch, and twice the pixels
	Dark          bool
	NoScript      bool
}

// Tab is one page of a browser.
type Tab struct {
	t       testing.TB
	browser *Browser
	session string
	loaded  chan struct{}

	mu       sync.Mutex
	problems []string
	received int64
}

// Open opens an empty tab.
func (b *Browser) Open(t testing.TB, look Look) *Tab {
	t.Helper()
	var target struct{ TargetID string }
	tab := &Tab{t: t, browser: b, loaded: make(chan struct{}, 16)}
	b.must(t, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.must(t, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	tab.session = attached.SessionID
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		tab.must(domain+".enable", map[string]any{}, nil)
	}
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	scale := 1
	if look.Phone {
		scale = 2
	}
	tab.must("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	tab.must("Emulation.setDeviceMetricsOverride", map[string]any{"width": look.Width, "height": look.Height, "deviceScaleFactor": scale, "mobile": look.Phone}, nil)
	tab.must("Emulation.setScriptExecutionDisabled", map[string]any{"value": look.NoScript}, nil)
	return tab
}

func (b *Browser) must(t testing.TB, session, method string, params, into any) {
	t.Helper()
	if err := b.call(session, method, params, into); err != nil {
		t.Fatal(err)
	}
}

func (t *Tab) must(method string, params, into any) {
	t.t.Helper()
	t.browser.must(t.t, t.session, method, params, into)
}

// event is called by the browser's reading goroutine.
func (t *Tab) event(method string, params json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch method {
	case "Page.loadEventFired":
		select {
		case t.loaded <- struct{}{}:
		default:
		}
	case "Log.entryAdded":
		var p struct {
			Entry struct{ Level, Text, URL string }
		}
		if json.Unmarshal(params, &p) == nil && (p.Entry.Level == "error" || p.Entry.Level == "warning") {
			t.problems = append(t.problems, p.Entry.Text+" "+p.Entry.URL)
		}
	case "Runtime.exceptionThrown":
		t.problems = append(t.problems, string(params))
	case "Network.dataReceived":
		var p struct{ DataLength int64 }
		if json.Unmarshal(params, &p) == nil {
			t.received += p.DataLength
		}
	}
}

// Problems is what the browser has complained about: scripts, policies, things that could not be loaded.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.problems...)
}

// Received is how many bytes have come, after any compression.
func (t *Tab) Received() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received
}

// Go opens an address and waits until it is loaded.
func (t *Tab) Go(url string) {
	t.t.Helper()
	var navigated struct{ ErrorText string }
	t.must("Page.navigate", map[string]any{"url": url}, &navigated)
	if navigated.ErrorText != "" {
		t.t.Fatalf("%s: %s", url, navigated.ErrorText)
	}
	select {
	case <-t.loaded:
	case <-time.After(patience):
		t.t.Fatalf("%s was not loaded", url)
	}
}

// Eval reads the value of an expression, waiting for it where it is a promise.
func Eval[T any](t *Tab, expression string) T {
	t.t.Helper()
	var out struct {
		Result           struct{ Value T }
		ExceptionDetails json.RawMessage
	}
	t.must("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		t.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	return out.Result.Value
}

// Until waits for an expression to be true.
func (t *Tab) Until(what, expression string) {
	t.t.Helper()
	for deadline := time.Now().Add(patience); !Eval[bool](t, expression); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.t.Fatalf("%s has not come to be", what)
		}
	}
}

// Press presses and releases a key.
func (t *Tab) Press(key string) {
	t.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, " ": 32}
	down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["text"] = "\r"
	}
	t.must("Input.dispatchKeyEvent", down, nil)
	t.must("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// Shot leaves a picture of the page, at most high pixels of it, in the folder that was asked for; without one it does nothing.
func (t *Tab) Shot(dir, name string, width, high int) {
	t.t.Helper()
	if dir == "" {
		return
	}
	height := min(high, Eval[int](t, "document.documentElement.scrollHeight"))
	var shot struct{ Data string }
	t.must("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.png", name)), picture, 0o644)
	}
	if err != nil {
		t.t.Fatal(err)
	}
}
