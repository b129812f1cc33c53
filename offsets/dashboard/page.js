"use strict";
// Replaces what has changed in the page by what the server says now. Where nothing changed, nothing is touched.
(() => {
  const every = 5000;
  const live = document.getElementById("live");
  const button = document.getElementById("pause");
  let paused = false, timer = 0, asking = false;

  function morph(have, want) {
    if (have.isEqualNode(want)) return;
    if (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName || have.id !== want.id) {
      have.replaceWith(want);
      return;
    }
    if (have.nodeType !== Node.ELEMENT_NODE) {
      have.nodeValue = want.nodeValue;
      return;
    }
    for (const a of [...have.attributes]) if (!want.hasAttribute(a.name) && a.name !== "open") have.removeAttribute(a.name);
    for (const a of want.attributes) if (have.getAttribute(a.name) !== a.value) have.setAttribute(a.name, a.value);
    morphChildren(have, want);
  }

  function morphChildren(have, want) {
    const wanted = [...want.childNodes], there = [...have.childNodes];
    wanted.forEach((w, i) => i < there.length ? morph(there[i], w) : have.append(w));
    there.slice(wanted.length).forEach((h) => h.remove());
  }

  function show(answer) {
    document.title = answer.title;
    const focused = document.activeElement && document.activeElement.id;
    for (const [id, html] of Object.entries(answer.parts)) {
      const want = document.createElement("template");
      want.innerHTML = html;
      morphChildren(document.getElementById(id), want.content);
    }
    if (focused && document.activeElement === document.body) {
      const again = document.getElementById(focused);
      if (again) again.focus({preventScroll: true});
    }
  }

  function say(text, stale) {
    if (live.textContent !== text) live.textContent = text;
    document.body.classList.toggle("stale", stale);
  }

  async function refresh() {
    if (asking || paused || document.hidden) return;
    asking = true;
    const began = performance.now();
    try {
      const response = await fetch("/page.json" + location.search, {signal: AbortSignal.timeout(15000)});
      if (!response.ok) throw new Error("the server answered " + response.status);
      show(await response.json());
      say("Live", false);
      performance.measure("refresh", {start: began});
    } catch (e) {
      say("No answer: these are old numbers", true);
    } finally {
      asking = false;
    }
  }

  function begin() {
    clearInterval(timer);
    if (!paused) timer = setInterval(refresh, every);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    say(paused ? "Paused" : "Live", false);
    begin();
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  say("Live", false);
  begin();
})();
