package httpapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

func TestEveryRouteIsInTheDocumentAndViceVersa(t *testing.T) {
	var described []string
	ids := map[string]bool{}
	for path, methods := range theDocument().Paths {
		for method, o := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
			if o.ID == "" || ids[o.ID] {
				t.Errorf("%s %s has no operationId of its own", method, path)
			}
			ids[o.ID] = true
			names := map[string]bool{}
			for _, p := range theDocument().parameters(o) {
				if p.In == "path" {
					names["{"+p.Name+"}"] = true
				}
			}
			for _, part := range regexp.MustCompile(`{\w+}`).FindAllString(path, -1) {
				if !names[part] {
					t.Errorf("%s %s does not describe %s", method, path, part)
				}
			}
		}
	}
	slices.Sort(described)
	served := slices.Sorted(slices.Values(newAPI(t, nil).server.served))
	if !slices.Equal(served, described) {
		t.Errorf("served     %v\ndescribed  %v", served, described)
	}
}

// views are the structs that are read and written, by the schema of each.
var views = map[string]reflect.Type{
	"Problem": reflect.TypeFor[problem](), "Message": reflect.TypeFor[message](), "Task": reflect.TypeFor[taskView](),
	"Document": reflect.TypeFor[tasks.Document](), "History": reflect.TypeFor[historyView](), "Reply": reflect.TypeFor[replyView](),
	"Failure": reflect.TypeFor[errorView](), "Cost": reflect.TypeFor[costView](), "Tasks": reflect.TypeFor[tasksView](),
	"CancelledTask": reflect.TypeFor[cancelView](), "Attempt": reflect.TypeFor[attemptView](), "Attempts": reflect.TypeFor[attemptsView](),
	"UserMessage": reflect.TypeFor[messageView](), "SavedReply": reflect.TypeFor[savedResponse](), "Conversation": reflect.TypeFor[conversationView](),
	"Regenerate": reflect.TypeFor[overrides](), "ChatError": reflect.TypeFor[chatErrorView](), "ChatUsage": reflect.TypeFor[chatUsage](),
	"ChatCompletion": reflect.TypeFor[completionView](), "ChatChoice": reflect.TypeFor[choiceView](),
	"Models": reflect.TypeFor[modelsView](), "Model": reflect.TypeFor[modelView](), "Spend": reflect.TypeFor[spendView](), "SpendRow": reflect.TypeFor[spendRowView](),
	"SpendSums": reflect.TypeFor[spendSumView](), "SpendPart": reflect.TypeFor[spendPartView](), "SpendSaved": reflect.TypeFor[savedView](),
	"StatusEvent": reflect.TypeFor[statusView](), "TokenEvent": reflect.TypeFor[tokenView](), "ResetEvent": reflect.TypeFor[resetView](),
}

// notViews are schemas that no struct of their own stands behind.
var notViews = []string{"Status", "Event", "ChatMessage", "ChatRequest"}

func TestEveryFieldIsInItsSchemaAndViceVersa(t *testing.T) {
	for name, s := range theDocument().Components.Schemas {
		view, ok := views[name]
		if !ok {
			if !slices.Contains(notViews, name) {
				t.Errorf("no struct is named for the schema %s", name)
			}
			continue
		}
		sameFields(t, name, s, view)
	}
	for name := range views {
		if theDocument().Components.Schemas[name] == nil {
			t.Errorf("there is no schema %s", name)
		}
	}
}

func sameFields(t *testing.T, name string, s schema, view reflect.Type) {
	t.Helper()
	properties, _ := s["properties"].(map[string]any)
	fields := map[string]bool{} // by name: it is always there
	collect(view, fields)
	if a, b := slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(properties)); !slices.Equal(a, b) {
		t.Errorf("%s: %v has the fields\n%v, openapi.json\n%v", name, view, a, b)
	}
	if s["additionalProperties"] == false {
		return // a request: what is required is for the parser to say
	}
	required, _ := s["required"].([]any)
	for field, always := range fields {
		if slices.Contains(required, any(field)) != always {
			t.Errorf("%s.%s: required is %v in openapi.json", name, field, !always)
		}
	}
}

func collect(view reflect.Type, fields map[string]bool) {
	for i := range view.NumField() {
		f := view.Field(i)
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" {
			collect(f.Type, fields)
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name != "" && name != "-" {
			fields[name] = options == ""
		}
	}
}

func TestEveryProblemCodeIsInTheDocumentAndViceVersa(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{"codeKeyMissing": codeKeyMissing}
	used := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "newProblem" {
				switch code := call.Args[1].(type) {
				case *ast.BasicLit:
					text, _ := strconv.Unquote(code.Value)
					used[text] = true
				case *ast.Ident:
					used[constants[code.Name]] = true
				case *ast.SelectorExpr: // the class of a task's failure, which the document names as such
				default:
					t.Errorf("%s: a problem's code is not written out", file)
				}
			}
			return true
		})
	}
	var listed []string
	for _, code := range theDocument().Components.Schemas["Problem"]["properties"].(map[string]any)["code"].(map[string]any)["enum"].([]any) {
		listed = append(listed, code.(string))
	}
	slices.Sort(listed)
	if codes := slices.Sorted(maps.Keys(used)); len(codes) < 10 || !slices.Equal(codes, listed) {
		t.Errorf("used    %v\nlisted  %v", codes, listed)
	}
}

// at follows a path of names into the document.
func at(t *testing.T, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(openAPI, &v); err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(path) {
		if list, ok := v.([]any); ok {
			n, err := strconv.Atoi(name)
			if err != nil {
				t.Fatal(err)
			}
			v = list[n]
			continue
		}
		v = v.(map[string]any)[name]
	}
	return v
}

func TestEveryLimitIsTheOneThatHolds(t *testing.T) {
	c, err := Config{Store: newAPI(t, nil).store, Keys: &keyCacheStore{}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	const message = "components schemas Message properties "
	for path, want := range map[string]int{
		message + "content maxLength":                         c.Limits.MaxContent,
		message + "model maxLength":                           maxModel,
		message + "system maxLength":                          maxSystem,
		message + "document properties id maxLength":          maxDocument,
		message + "document properties version maxLength":     maxDocument,
		message + "prompt_template maxLength":                 maxPromptName,
		message + "max_output_tokens maximum":                 maxOutputTokens,
		message + "max_attempts maximum":                      c.Limits.MaxAttempts,
		message + "deadline_seconds maximum":                  int(c.Limits.MaxDeadline / time.Second),
		"paths /v1/spend get parameters 1 schema maxLength":   maxDocument,
		message + "metadata maxProperties":                    maxMetadata,
		message + "metadata propertyNames maxLength":          maxMetadataKey,
		message + "metadata additionalProperties maxLength":   maxMetadataValue,
		"components parameters conversation schema maxLength": maxConversation,
		"components parameters limit schema default":          defaultPage,
	} {
		if got, _ := at(t, path).(float64); int(got) != want {
			t.Errorf("%s is %v, want %d", path, got, want)
		}
	}
	for _, limit := range []string{"more than " + strconv.Itoa(c.Limits.MaxPage) + " is cut", "More than " + strconv.Itoa(int(c.Limits.MaxWait/time.Second)) + "s is cut", "every " + strconv.Itoa(int(heartbeat/time.Second)) + " s"} {
		if !strings.Contains(strings.ToLower(string(openAPI)), strings.ToLower(limit)) {
			t.Errorf("openapi.json does not say %q", limit)
		}
	}
	for schema, want := range map[string][]string{
		"Status":                          {"queued", "running", "completed", "failed", "cancelled"},
		"Attempt properties outcome":      {string(tasks.AttemptAccepted), string(tasks.AttemptNotAccepted), string(tasks.AttemptFailed), string(tasks.AttemptUnknown)},
		"Task properties kind":            {string(tasks.KindReply), string(tasks.KindRegenerate)},
		"Message properties on_ambiguous": {string(tasks.AmbiguousRetry), string(tasks.AmbiguousStop)},
	} {
		var got []string
		for _, v := range at(t, "components schemas "+schema+" enum").([]any) {
			if s, _ := v.(string); s != "" {
				got = append(got, s)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is one of %v, want %v", schema, got, want)
		}
	}
}

// keyCacheStore is a KeyStore that nobody asks.
type keyCacheStore struct{ KeyStore }

// Every example is as its schema says, and every reference leads somewhere.
func TestExamplesAndReferences(t *testing.T) {
	d := theDocument()
	for path, methods := range d.Paths {
		for method, o := range methods {
			contents := slices.Collect(maps.Values(o.Responses))
			if o.Body != nil {
				contents = append(contents, *o.Body)
			}
			for _, r := range contents {
				for media, c := range d.response(r).Content {
					if c.Example == nil || !strings.HasSuffix(media, "json") {
						continue
					}
					if err := d.validate(c.Schema, c.Example, "example"); err != nil {
						t.Errorf("%s %s: %v", method, path, err)
					}
				}
			}
		}
	}
	for _, m := range regexp.MustCompile(`"\$ref": "#/([^"]+)"`).FindAllSubmatch(openAPI, -1) {
		if at(t, strings.ReplaceAll(string(m[1]), "/", " ")) == nil {
			t.Errorf("%s leads nowhere", m[1])
		}
	}
}

func TestDocumentAndPageNeedNoKeyAndNoNetwork(t *testing.T) {
	a := newAPI(t, nil)
	got := a.do("GET", "/openapi.json", "", "Authorization", "").want(t, http.StatusOK)
	if got.Header.Get("Content-Type") != "application/json" || string(got.body) != string(openAPI) {
		t.Errorf("%v, %d bytes", got.Header, len(got.body))
	}
	page := a.do("GET", "/docs", "", "Authorization", "").want(t, http.StatusOK)
	if got := page.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	if got := page.Header.Get("Content-Security-Policy"); got != "default-src 'none'; style-src 'unsafe-inline'" {
		t.Errorf("Content-Security-Policy %q", got)
	}
	text := string(page.body)
	for path, methods := range theDocument().Paths {
		if !strings.Contains(text, path) {
			t.Errorf("the page has no %s", path)
		}
		for _, o := range methods {
			if !strings.Contains(text, `id="`+o.ID+`"`) {
				t.Errorf("the page has no %s", o.ID)
			}
		}
	}
	for name := range theDocument().Components.Schemas {
		if !strings.Contains(text, `id="schema-`+name+`"`) {
			t.Errorf("the page has no schema %s", name)
		}
	}
	if bad := regexp.MustCompile(`(?i)<script|<link|<img|@import|url\(|src=|ZgotmplZ`).FindString(text); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	for _, want := range []string{"prefers-color-scheme: dark", "<title>Fencepost", `lang="en"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	a.do("GET", "/docs?x=1", "").problem(t, 400, "invalid_request")
	a.do("GET", "/openapi.json?x=1", "").problem(t, 400, "invalid_request")
	a.do("POST", "/docs", "").problem(t, 405, "method_not_allowed")
}
