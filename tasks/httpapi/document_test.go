package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// document is openapi.json as the tests look at it.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas   map[string]schema   `json:"schemas"`
		Responses map[string]response `json:"responses"`
		Headers   map[string]any      `json:"headers"`
		// Parameters by the name that references have.
		Parameters map[string]parameter `json:"parameters"`
	} `json:"components"`
}

type operation struct {
	ID         string                `json:"operationId"`
	Security   []map[string][]string `json:"security"`
	Parameters []parameter           `json:"parameters"`
	Body       *response             `json:"requestBody"`
	Responses  map[string]response   `json:"responses"`
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string `json:"name"`
	In   string `json:"in"`
}

type response struct {
	Ref     string         `json:"$ref"`
	Headers map[string]any `json:"headers"`
	Content map[string]struct {
		Schema  schema `json:"schema"`
		Example any    `json:"example"`
	} `json:"content"`
}

type schema map[string]any

var theDocument = sync.OnceValue(func() *document {
	d := new(document)
	if err := json.Unmarshal(openAPI, d); err != nil {
		panic(err)
	}
	return d
})

func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

func (d *document) parameters(o operation) []parameter {
	all := slices.Clone(o.Parameters)
	for i, p := range all {
		if p.Ref != "" {
			all[i] = d.Components.Parameters[last(p.Ref)]
		}
	}
	return all
}

func (d *document) response(r response) response {
	if r.Ref != "" {
		return d.Components.Responses[last(r.Ref)]
	}
	return r
}

// find is the operation that answers a request; its path in the document is empty where there is none.
func (d *document) find(method, path string) (string, operation) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(path, "/")
	for p, methods := range d.Paths {
		pattern := strings.Split(p, "/")
		if len(pattern) != len(parts) {
			continue
		}
		if slices.EqualFunc(pattern, parts, func(a, b string) bool { return a == b || strings.HasPrefix(a, "{") && b != "" }) {
			if o, ok := methods[strings.ToLower(method)]; ok {
				return p, o
			}
		}
	}
	return "", operation{}
}

// describes says what of an answer is not as the document has it: status, headers of ours, media type, every field.
func (d *document) describes(method, path string, a answer) error {
	_, o := d.find(method, path)
	if o.ID == "" {
		if a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMethodNotAllowed {
			return fmt.Errorf("status %d of a route that is not in openapi.json", a.StatusCode)
		}
		return nil
	}
	r, ok := o.Responses[strconv.Itoa(a.StatusCode)]
	if !ok {
		return fmt.Errorf("status %d is not in openapi.json; body %s", a.StatusCode, a.body)
	}
	r = d.response(r)
	described := map[string]bool{}
	for name := range r.Headers {
		described[http.CanonicalHeaderKey(name)] = true
	}
	for name := range a.Header {
		if slices.Contains([]string{"Content-Type", "Content-Length", "Cache-Control", "Date", "Connection", "X-Accel-Buffering", "Content-Security-Policy"}, name) {
			continue
		}
		if !described[name] {
			return fmt.Errorf("header %s of status %d is not in openapi.json", name, a.StatusCode)
		}
	}
	if method == http.MethodHead || len(a.body) == 0 {
		return nil
	}
	media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	content, ok := r.Content[media]
	if !ok {
		return fmt.Errorf("a body of the type %q with status %d is not in openapi.json", media, a.StatusCode)
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		return err
	}
	return d.validate(content.Schema, v, "body")
}

// unicodeEscape is how patterns of JSON Schema name a character and Go's do not.
var unicodeEscape = regexp.MustCompile(`\\u([0-9a-f]{4})`)

// validate understands as much of JSON Schema as openapi.json uses. An object with properties has no others, so that no
// field of an answer is undocumented.
func (d *document) validate(s schema, v any, at string) error {
	if ref, ok := s["$ref"].(string); ok {
		target, ok := d.Components.Schemas[last(ref)]
		if !ok {
			return fmt.Errorf("%s: there is no %s", at, ref)
		}
		return d.validate(target, v, at)
	}
	if one, ok := s["oneOf"].([]any); ok {
		var errs []string
		for _, o := range one {
			err := d.validate(schema(o.(map[string]any)), v, at)
			if err == nil {
				return nil
			}
			errs = append(errs, err.Error())
		}
		return fmt.Errorf("%s: none of: %s", at, strings.Join(errs, "; "))
	}
	if c, ok := s["const"]; ok && c != v {
		return fmt.Errorf("%s is %v, not %v", at, v, c)
	}
	if e, ok := s["enum"].([]any); ok && !slices.Contains(e, v) {
		return fmt.Errorf("%s is %v, not one of %v", at, v, e)
	}
	if err := checkType(s["type"], v, at); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(unicodeEscape.ReplaceAllString(p, `\x{$1}`)).MatchString(v) {
			return fmt.Errorf("%s is %q, which %s does not match", at, v, p)
		}
	case float64:
		if least, ok := s["minimum"].(float64); ok && v < least {
			return fmt.Errorf("%s is %v, less than %v", at, v, least)
		}
	case []any:
		items, _ := s["items"].(map[string]any)
		for i, item := range v {
			if err := d.validate(items, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.validateObject(s, v, at)
	}
	return nil
}

func (d *document) validateObject(s schema, v map[string]any, at string) error {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s has no %s", at, name)
		}
	}
	properties, closed := s["properties"].(map[string]any)
	others, _ := s["additionalProperties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(v)) {
		property, ok := properties[name].(map[string]any)
		switch {
		case !ok && others != nil:
			property = others
		case !ok && closed:
			return fmt.Errorf("%s.%s is not in openapi.json", at, name)
		}
		if err := d.validate(property, v[name], at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func checkType(want, v any, at string) error {
	if want == nil {
		return nil
	}
	types, ok := want.([]any)
	if !ok {
		types = []any{want}
	}
	var is string
	switch v := v.(type) {
	case nil:
		is = "null"
	case bool:
		is = "boolean"
	case string:
		is = "string"
	case float64:
		is = "number"
		if v == math.Trunc(v) {
			is = "integer"
		}
	case []any:
		is = "array"
	default:
		is = "object"
	}
	if !slices.Contains(types, any(is)) && (is != "integer" || !slices.Contains(types, any("number"))) {
		return fmt.Errorf("%s is %s, not %v", at, is, want)
	}
	return nil
}

// Every answer that any test gets is as the document says: see api.try.
func (a *api) documented(method, path string, got answer) {
	a.t.Helper()
	path, _, _ = strings.Cut(path, "?")
	if err := theDocument().describes(method, path, got); err != nil {
		a.t.Errorf("%s %s: %v", method, path, err)
	}
}

func TestTheValidatorRefuses(t *testing.T) {
	d := theDocument()
	task := func(change func(map[string]any)) error {
		var v map[string]any
		if err := json.Unmarshal([]byte(`{"reply":null,"id":"x","text":"","model":"","finish_reason":"","saved_at":"","attempt":1}`), &v); err != nil {
			t.Fatal(err)
		}
		delete(v, "reply")
		change(v)
		return d.validate(schema{"$ref": "#/components/schemas/Reply"}, v, "reply")
	}
	if err := task(func(map[string]any) {}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(map[string]any){
		"missing": func(v map[string]any) { delete(v, "text") },
		"unknown": func(v map[string]any) { v["texts"] = "" },
		"type":    func(v map[string]any) { v["attempt"] = "1" },
		"null":    func(v map[string]any) { v["text"] = nil },
		"range":   func(v map[string]any) { v["attempt"] = -1. },
	} {
		if task(change) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
