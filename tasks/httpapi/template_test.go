package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

func templates(t *testing.T, list ...Template) *Templates {
	t.Helper()
	ts, err := NewTemplates(list)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// deploys are the templates before and after the operator's change.
func deploys(t *testing.T) (before, after *Templates) {
	return templates(t, Template{Name: "support", Version: "2", Text: "You are two. {{document.id}}/{{ document.version }}\n", Current: true}),
		templates(t, Template{Name: "support", Version: "2", Text: "You are two, corrected."},
			Template{Name: "support", Version: "3", Text: "You are three.", Current: true})
}

func TestTemplatesAreChecked(t *testing.T) {
	one := func(text string) []Template {
		return []Template{{Name: "support", Version: "2", Text: text, Current: true}}
	}
	for want, list := range map[string][]Template{
		`{{user}} hides this`:            one("a {{user}} hides this"),
		`{{document.id`:                  one("a {{document.id"),
		`{{}}`:                           one("a {{}}"),
		`document.id}}`:                  one("a {{document.name}}"),
		"empty":                          one(" \n"),
		"NUL":                            one("a\x00"),
		"UTF-8":                          one("a\xff"),
		"65536 bytes":                    one(strings.Repeat("a", 64<<10+1)),
		"100 placeholders":               one(strings.Repeat("{{document.id}}", 101)),
		"name has not":                   {{Name: "a@b", Version: "1", Text: "x", Current: true}},
		"version has not":                {{Name: "a", Version: "", Text: "x", Current: true}},
		"twice":                          {{Name: "a", Version: "1", Text: "x", Current: true}, {Name: "a", Version: "1", Text: "y"}},
		`current versions, "1" and "2"`:  {{Name: "a", Version: "1", Text: "x", Current: true}, {Name: "a", Version: "2", Text: "y", Current: true}},
		"no current version":             {{Name: "a", Version: "1", Text: "x"}},
		"there are 1001 templates, more": make([]Template, 1001),
	} {
		if _, err := NewTemplates(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	templates(t, Template{Name: "a", Version: "1", Text: strings.Repeat("a", 64<<10), Current: true},
		Template{Name: "b", Version: "1", Text: strings.Repeat("{{document.id}}", 100), Current: true})
}

func TestTemplateIsRenderedWhenTheMessageIsAccepted(t *testing.T) {
	var store *spy
	before, after := deploys(t)
	a := newAPI(t, func(c *Config) {
		store = &spy{Store: c.Store}
		c.Store, c.Templates = store, after
		c.Templates.versions["support@1"] = before.versions["support@2"]
	})
	for i, c := range []struct{ body, system, version string }{
		{`{"content":"hi","prompt_template":"support"}`, "You are three.", "3"},
		{`{"content":"hi","prompt_template":"support","system":"Be kind."}`, "You are three.\n\nBe kind.", "3"},
		{`{"content":"hi","prompt_template":"support@2"}`, "You are two, corrected.", "2"},
		// What the caller says is never a placeholder.
		{`{"content":"hi","prompt_template":"support@1","document":{"id":"{{document.version}}","version":"v"}}`, "You are two. {{document.version}}/v", "2"},
		{`{"content":"hi","system":"Be {{document.id}}."}`, "Be {{document.id}}.", ""},
	} {
		task := a.do("POST", messages, c.body, "Idempotency-Key", c.body).want(t, 202).object(t)
		got := store.items[i].Request
		if got.System != c.system || got.PromptTemplateVersion != c.version || strings.Contains(got.PromptTemplate, "@") {
			t.Errorf("%s: asked %+v", c.body, got)
		}
		if c.version != "" && (task["prompt_template"] != "support" || task["prompt_template_version"] != c.version) {
			t.Errorf("%s: task %v", c.body, task)
		}
		if c.version == "" && task["prompt_template"] != nil {
			t.Errorf("%s: task %v", c.body, task)
		}
		id := uuid.MustParse(task["id"].(string))
		a.finish(id, "done")
		reply := a.do("GET", "/v1/tasks/"+id.String(), "").want(t, 200).object(t)["reply"].(map[string]any)
		if version, _ := reply["prompt_template_version"].(string); version != c.version || (reply["prompt_template"] == "support") != (c.version != "") {
			t.Errorf("%s: reply %v", c.body, reply)
		}
	}
}

func TestTemplatesThatCannotBeUsedAreRefused(t *testing.T) {
	before, _ := deploys(t)
	a := newAPI(t, func(c *Config) { c.Templates = before })
	for body, field := range map[string]string{
		`{"content":"hi","prompt_template":"other"}`:                                "prompt_template",
		`{"content":"hi","prompt_template":"@2"}`:                                   "prompt_template",
		`{"content":"hi","prompt_template":"support@"}`:                             "prompt_template",
		`{"content":"hi","prompt_template":"support@9"}`:                            "prompt_template",
		`{"content":"hi","prompt_template":"support@2@2"}`:                          "prompt_template",
		`{"content":"hi","prompt_template":"support"}`:                              "document.id",
		`{"content":"hi","prompt_template":"support","document":{"id":"d"}}`:        "document.version",
		`{"content":"hi","prompt_template":"Support","document":{"id":"d"}}`:        "prompt_template",
		`{"content":"hi","prompt_template":"support ","document":{"id":"d"}}`:       "prompt_template",
		`{"content":"hi","prompt_template":"support@ 2","document":{"id":"d"}}`:     "prompt_template",
		`{"content":"hi","prompt_template":"support@2 ","document":{"id":"d"}}`:     "prompt_template",
		`{"content":"hi","prompt_template":"` + strings.Repeat("support", 9) + `"}`: "prompt_template",
	} {
		p := a.do("POST", messages, body, "Idempotency-Key", "k1").problem(t, http.StatusBadRequest, "invalid_request")
		if text, _ := p["detail"].(string); p["field"] != field || strings.Contains(text, "two") || field == "prompt_template" && strings.Contains(text, "support") {
			t.Errorf("%s: %v", body, p)
		}
	}
	// None of them has bound the key.
	a.send("k1", `{"content":"hi"}`)
}

func TestI6_ChangedTemplatesDoNotRefuseTheRepeat(t *testing.T) {
	changedTemplates(t, memory.New(memory.Config{}))
}

func changedTemplates(t *testing.T, store keysAndTasks) {
	before, after := deploys(t)
	gone := templates(t, Template{Name: "sales", Version: "1", Text: "You sell.", Current: true})
	at := func(ts *Templates) *api {
		return newAPIOn(t, store, func(c *Config) { c.Templates, c.Defaults.Retention = ts, 0 })
	}
	servers := map[string]*api{"before": at(before), "after": at(after), "gone": at(gone), "none": at(nil)}
	const doc = `,"document":{"id":"d","version":"v"}`
	for key, c := range map[string]struct {
		first         string // server and body of what is accepted
		body          string
		again         string // what repeats it
		same          string // servers, by a word each, where that is a replay
		reused        string // where it is 422
		refused       string // where it is 400
		againRejected []string
	}{
		"open": {first: "before", body: `"support"`, again: `"support"`, same: "before after gone none",
			againRejected: []string{`"support@3"`, `"sales"`, `"support","system":"x"`}},
		"pinned":   {first: "before", body: `"support@2"`, again: `"support@2"`, same: "before after gone none"},
		"other":    {first: "before", body: `"support"`, again: `"support@3"`, reused: "after none", refused: "before gone"},
		"word":     {first: "none", body: `"support"`, again: `"support"`, same: "before after gone none"},
		"odd word": {first: "none", body: `"support@2"`, again: `"support@2"`, same: "before after gone none"},
	} {
		id := servers[c.first].send(key, `{"content":"hi","prompt_template":`+c.body+doc+`}`)
		for _, name := range strings.Fields(c.same) {
			a := servers[name]
			got := a.do("POST", messages, `{"content":"hi","prompt_template":`+c.again+doc+`}`, "Idempotency-Key", key).want(t, http.StatusAccepted)
			if got.object(t)["id"] != id.String() || got.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s, %s: %v %s, want a replay of %s", key, name, got.Header, got.body, id)
			}
			// The other workspace has no such key, and learns nothing of it (I8).
			other := a.do("POST", messages, `{"content":"hi","prompt_template":`+c.again+doc+`}`, "Idempotency-Key", key, "Authorization", "Bearer "+a.other)
			if other.StatusCode == http.StatusAccepted && other.object(t)["id"] == id.String() {
				t.Errorf("%s, %s: another workspace gets the task", key, name)
			}
			for _, body := range append(c.againRejected, c.again+`,"temperature":1`) {
				got := a.do("POST", messages, `{"content":"hi","prompt_template":`+body+doc+`}`, "Idempotency-Key", key)
				if got.StatusCode != http.StatusUnprocessableEntity && got.StatusCode != http.StatusBadRequest {
					t.Errorf("%s, %s: %s is %d, want a refusal", key, name, body, got.StatusCode)
				}
			}
		}
		for _, name := range strings.Fields(c.reused) {
			servers[name].do("POST", messages, `{"content":"hi","prompt_template":`+c.again+doc+`}`, "Idempotency-Key", key).
				problem(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
		}
		for _, name := range strings.Fields(c.refused) {
			servers[name].do("POST", messages, `{"content":"hi","prompt_template":`+c.again+doc+`}`, "Idempotency-Key", key).
				problem(t, http.StatusBadRequest, "invalid_request")
		}
	}
	// Nothing was stored but the first of each key, and what the other workspace sent.
	if page, err := store.Tasks(t.Context(), tasks.Filter{Workspace: "w1"}); err != nil || len(page) != 5 {
		t.Errorf("%d tasks, %v, want 5", len(page), err)
	}
}
