package page

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/e2e/procs"
	"github.com/fencepost/fencepost/offsets/dashboard"
)

var shots = flag.String("page.shots", "", "leave pictures of the page in this folder")

func TestMain(m *testing.M) { os.Exit(procs.Main(m).Run()) }

func serve(t *testing.T, f *fake) string {
	t.Helper()
	s := httptest.NewServer(dashboard.New(dashboard.Config{Sources: f.sources(), Version: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))
	t.Cleanup(s.Close)
	return s.URL
}

var looks = []struct {
	name string
	look Look
}{
	{"light", Look{Width: 1280, Height: 900}},
	{"dark", Look{Width: 1280, Height: 900, Dark: true}},
	{"phone", Look{Width: 390, Height: 844, Phone: true}},
	{"phone-dark", Look{Width: 390, Height: 844, Phone: true, Dark: true}},
	{"no-script", Look{Width: 1280, Height: 900, NoScript: true}},
}

// TestLooks: on every kind of screen nothing is wider than the screen, all partitions are there, every text has enough
// contrast, and the browser complains of nothing.
func TestLooks(t *testing.T) {
	b := Start(t)
	for _, partitions := range []int{3, 300} {
		url := serve(t, &fake{partitions: partitions})
		for _, l := range looks {
			t.Run(l.name+"/"+number(partitions), func(t *testing.T) {
				tab := b.Open(t, l.look)
				tab.Go(url + "/")
				tab.Shot(*shots, l.name+"-"+number(partitions), l.look.Width, 6000)
				judge(t, tab, l.look.Width)
				if rows := Eval[int](tab, `document.querySelectorAll("#lag tbody tr").length`); rows != partitions {
					t.Errorf("%d rows, want %d", rows, partitions)
				}
				tab.Go(url + "/tasks/" + id(1))
				tab.Shot(*shots, "task-"+l.name, l.look.Width, 3000)
				judge(t, tab, l.look.Width)
			})
		}
	}
}

// judge looks at what a page must be on any screen.
func judge(t *testing.T, tab *Tab, width int) {
	t.Helper()
	if wide := Eval[int](tab, `document.documentElement.scrollWidth`); wide > width {
		t.Errorf("the page is %d wide, the screen %d", wide, width)
	}
	if wide := Eval[int](tab, `Math.max(0, ...[...document.querySelectorAll(".scroll")].map((e) => e.scrollWidth - e.clientWidth))`); wide > 0 && width < 500 {
		t.Errorf("a table is %d wider than the phone", wide)
	}
	for _, problem := range Eval[[]string](tab, contrast) {
		t.Error(problem)
	}
	for _, problem := range Eval[[]string](tab, unnamed) {
		t.Error(problem)
	}
	for _, problem := range tab.Problems() {
		t.Errorf("the browser says: %s", problem)
	}
}

// contrast names the texts whose contrast is below that of WCAG 2.2's level AA.
const contrast = `(() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return {rgb: m.slice(0, 3), a: m.length > 3 ? m[3] : 1}; };
  const light = (rgb) => { const [r, g, b] = rgb.map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a === 1) return c.rgb; } return [255, 255, 255]; };
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.nodeValue.trim() || !e.getClientRects().length || ["SCRIPT", "STYLE"].includes(e.nodeName)) continue;
    const s = getComputedStyle(e), a = light(parse(s.color).rgb), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.add(e.nodeName + "." + e.className + " " + JSON.stringify(walk.currentNode.nodeValue.trim().slice(0, 20)) + " has a contrast of " + ratio.toFixed(2));
  }
  return [...bad];
})()`

// unnamed lists what a screen reader could not name, and tables without heads.
const unnamed = `(() => {
  const bad = [];
  for (const e of document.querySelectorAll("svg:not([aria-hidden])"))
    if (!e.getAttribute("aria-label") && !document.getElementById(e.getAttribute("aria-labelledby"))) bad.push("a picture has no name: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("a,button")) if (!e.textContent.trim()) bad.push("it has no text: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("section")) if (!e.getAttribute("aria-label") && !document.getElementById(e.getAttribute("aria-labelledby")) && !e.querySelector("h2")) bad.push("a section has no name");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push("two elements have the id " + id);
  if (!document.documentElement.lang) bad.push("the language is not said");
  return bad;
})()`

// TestLive: the page follows what the sources say, keeps the focus where it is, says when it gets no answer, and pauses.
func TestLive(t *testing.T) {
	b := Start(t)
	f := &fake{partitions: 300}
	url := serve(t, f)
	tab := b.Open(t, Look{Width: 1280, Height: 900})
	tab.Go(url + "/?sort=partition")
	before := Eval[string](tab, `document.querySelector("#p0 [data-l=lag]").textContent`)
	Eval[any](tab, `window.row = document.getElementById("p0"), document.querySelector("#p1 a").focus(), null`)
	tab.Until("a refresh", `performance.getEntriesByName("refresh").length > 1`)
	if after := Eval[string](tab, `document.querySelector("#p0 [data-l=lag]").textContent`); after == before {
		t.Errorf("partition 0 still shows a lag of %s", after)
	}
	if !Eval[bool](tab, `window.row.isConnected && document.activeElement === document.querySelector("#p1 a")`) {
		t.Error("a refresh has replaced a row that is still there, or taken the focus away")
	}
	t.Logf("refresh at 300 partitions: %.0f ms", Eval[[]float64](tab, `performance.getEntriesByName("refresh").map((e) => e.duration)`))

	f.failing(errors.New("Postgres is away"))
	tab.Until("the reason", `document.getElementById("work").textContent.includes("Postgres is away")`)
	if text := Eval[string](tab, `document.getElementById("money").textContent`); strings.Contains(text, "$") {
		t.Errorf("money that cannot be read is shown as %q", text)
	}
	f.failing(nil)
	tab.Until("the numbers again", `!document.getElementById("work").textContent.includes("Postgres is away")`)

	Eval[any](tab, `window.reallyFetch = fetch, window.fetch = () => Promise.reject(new Error("away")), null`)
	tab.Until("a word on old numbers", `document.getElementById("live").textContent.includes("old numbers") && document.body.classList.contains("stale")`)
	Eval[any](tab, `window.fetch = reallyFetch, null`)
	tab.Until("live again", `document.getElementById("live").textContent === "Live" && !document.body.classList.contains("stale")`)

	Eval[any](tab, `document.getElementById("pause").focus(), null`)
	tab.Press("Enter")
	tab.Until("paused", `document.getElementById("live").textContent === "Paused" && document.getElementById("pause").textContent === "Go on"`)
	for _, problem := range tab.Problems() {
		t.Errorf("the browser says: %s", problem)
	}
}

// TestKeyboard: whatever can be clicked is reached by Tab, from the link that skips the head on.
func TestKeyboard(t *testing.T) {
	b := Start(t)
	tab := b.Open(t, Look{Width: 1280, Height: 900})
	tab.Go(serve(t, &fake{partitions: 3}) + "/")
	want := Eval[int](tab, `[...document.querySelectorAll("a[href],button:not([hidden]),[tabindex='0']")].filter((e) => e.getClientRects().length).length`)
	seen := map[string]bool{}
	for range want {
		tab.Press("Tab")
		seen[Eval[string](tab, `(() => { const e = document.activeElement; return e === document.body ? "" : String([...document.querySelectorAll("*")].indexOf(e)); })()`)] = true
	}
	delete(seen, "")
	if len(seen) != want {
		t.Errorf("Tab reaches %d of %d", len(seen), want)
	}
	tab.Go(serve(t, &fake{partitions: 3}) + "/")
	tab.Press("Tab")
	if text := Eval[string](tab, `document.activeElement.textContent`); text != "To the lag" {
		t.Errorf("the first is %q", text)
	}
	if style := Eval[string](tab, `getComputedStyle(document.activeElement).outlineStyle`); style != "solid" {
		t.Errorf("the focus is drawn as %q", style)
	}
}

// TestSize: three hundred partitions with an hour of samples are below 5 MB, first and at each refresh.
func TestSize(t *testing.T) {
	url := serve(t, &fake{partitions: 300})
	for _, path := range []string{"/", "/page.json"} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		t.Logf("%s: %d KB", path, len(body)>>10)
		if resp.StatusCode != http.StatusOK || len(body) < 100<<10 || len(body) > 5<<20 {
			t.Errorf("%s: %s, %d bytes", path, resp.Status, len(body))
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func number(n int) string {
	return string(rune('0'+n/100)) + string(rune('0'+n/10%10)) + string(rune('0'+n%10))
}

func containsAll(text string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
