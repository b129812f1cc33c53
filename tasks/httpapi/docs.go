package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// docsPage is made from the OpenAPI document once; it needs neither a network nor JavaScript.
var docsPage = sync.OnceValues(func() ([]byte, error) {
	var o outline
	if err := json.Unmarshal(openAPI, &o); err != nil {
		return nil, err
	}
	page, err := template.New("docs").Funcs(template.FuncMap{"kind": kindOfSchema, "prose": prose, "pretty": pretty, "last": lastName, "upper": strings.ToUpper}).Parse(docsTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = page.Execute(&b, &o)
	return b.Bytes(), err
})

//go:embed docs.html
var docsTemplate string

// getDocs answers the documentation for people. It needs no key.
func getDocs(c *call) (int, error) {
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	page, err := docsPage()
	if err != nil {
		return 0, internal("the page could not be made", err)
	}
	c.w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return writePage(c.w, "text/html; charset=utf-8", page), nil
}

// outline is the document as the page shows it.
type outline struct {
	Info struct {
		Title, Description string
	}
	Tags []struct {
		Name, Description string
	}
	Paths      entries[entries[outlineOperation]]
	Components struct {
		Schemas    entries[outlineSchema]
		Parameters entries[outlineParameter]
		Responses  entries[outlineResponse]
	}
}

type outlineOperation struct {
	OperationID, Summary, Description string
	Tags                              []string
	Security                          []map[string][]string
	Parameters                        []outlineParameter
	RequestBody                       outlineResponse
	Responses                         entries[outlineResponse]
}

type outlineParameter struct {
	Ref, Name, In, Description string
	Required                   bool
	Schema                     outlineSchema
}

type outlineResponse struct {
	Ref, Description string
	Headers          entries[json.RawMessage]
	Content          entries[struct {
		Schema  outlineSchema
		Example json.RawMessage
	}]
}

type outlineSchema struct {
	Ref, Description, Format string
	Type, Const              any
	Enum                     []any
	Items                    *outlineSchema
	OneOf                    []outlineSchema
	Required                 []string
	Properties               entries[outlineSchema]
}

// entries are a JSON object's, in the order of the file.
type entries[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

func (e *entries[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		item := entry[T]{Name: fmt.Sprint(name)}
		if err := json.Unmarshal(bytes.ReplaceAll(value, []byte(`"$ref"`), []byte(`"ref"`)), &item.Value); err != nil {
			return err
		}
		*e = append(*e, item)
	}
	return nil
}

func (e entries[T]) find(ref string) (value T) {
	for _, item := range e {
		if item.Name == lastName(ref) {
			value = item.Value
		}
	}
	return value
}

// Needs reports whether the schema's objects always have the property.
func (s outlineSchema) Needs(property string) bool { return slices.Contains(s.Required, property) }

// Parameter and Response follow a reference.
func (o *outline) Parameter(p outlineParameter) outlineParameter {
	if p.Ref != "" {
		return o.Components.Parameters.find(p.Ref)
	}
	return p
}

// Response is r, or what it refers to.
func (o *outline) Response(r outlineResponse) outlineResponse {
	if r.Ref != "" {
		return o.Components.Responses.find(r.Ref)
	}
	return r
}

var quotedCode = regexp.MustCompile("`([^`]+)`")

// prose is a description with its code marked.
func prose(text string) template.HTML {
	return template.HTML(quotedCode.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>"))
}

func lastName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// kindOfSchema says in a few words what a value is.
func kindOfSchema(s outlineSchema) template.HTML {
	switch {
	case s.Ref != "":
		name := template.HTMLEscapeString(lastName(s.Ref))
		return template.HTML(`<a href="#schema-` + name + `">` + name + `</a>`)
	case s.Const != nil:
		return template.HTML("<code>" + template.HTMLEscapeString(fmt.Sprintf("%q", s.Const)) + "</code>")
	case len(s.Enum) > 0:
		var words []string
		for _, v := range s.Enum {
			if text, _ := v.(string); text != "" {
				words = append(words, "<code>"+template.HTMLEscapeString(text)+"</code>")
			}
		}
		return template.HTML(strings.Join(words, " "))
	case len(s.OneOf) > 0:
		var kinds []string
		for _, one := range s.OneOf {
			kinds = append(kinds, string(kindOfSchema(one)))
		}
		return template.HTML(strings.Join(kinds, " or "))
	case s.Items != nil:
		return "list of " + kindOfSchema(*s.Items)
	}
	words := strings.NewReplacer("[", "", "]", "", " ", " or ").Replace(fmt.Sprint(s.Type))
	if s.Type == nil {
		words = "anything"
	}
	if s.Format != "" {
		words += " (" + s.Format + ")"
	}
	return template.HTML(template.HTMLEscapeString(words))
}

// pretty lays an example out. One that is a string is shown as it is.
func pretty(example json.RawMessage) string {
	var text string
	if json.Unmarshal(example, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, example, "", "  ") != nil {
		return string(example)
	}
	return b.String()
}
