package httpapi

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/fencepost/fencepost/tasks"
)

// Limits of what an operator may configure.
const (
	maxTemplates    = 1000     // versions of all templates
	maxTemplateText = 64 << 10 // bytes
	maxPlaces       = 100      // placeholders of one template: each may become maxDocument bytes
)

// Template is one version of a prompt template. Its text may have the placeholders {{document.id}} and
// {{document.version}}, and nothing else in double braces.
type Template struct {
	Name, Version string // letters, digits, ".", "_" and "-"
	Text          string
	Current       bool // what a message means that names no version
}

// Templates are the prompt templates that messages may name.
type Templates struct {
	versions map[string]parsedTemplate // by name@version
	current  map[string]string         // versions, by name
}

// parsedTemplate is a text cut at its placeholders: places[i] stands between texts[i] and texts[i+1].
type parsedTemplate struct {
	name, version string
	texts         []string
	places        []string
}

var templateWord = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// NewTemplates checks the templates. Each name has exactly one current version.
func NewTemplates(list []Template) (*Templates, error) {
	if len(list) > maxTemplates {
		return nil, fmt.Errorf("there are %d templates, more than %d", len(list), maxTemplates)
	}
	ts := &Templates{versions: make(map[string]parsedTemplate, len(list)), current: map[string]string{}}
	for _, t := range list {
		parsed, err := parseTemplate(t)
		if err != nil {
			return nil, fmt.Errorf("template %q: %w", t.Name+"@"+t.Version, err)
		}
		full := t.Name + "@" + t.Version
		if _, twice := ts.versions[full]; twice {
			return nil, fmt.Errorf("template %q is there twice", full)
		}
		ts.versions[full] = parsed
		if !t.Current {
			continue
		}
		if other, twice := ts.current[t.Name]; twice {
			return nil, fmt.Errorf("template %q has two current versions, %q and %q", t.Name, other, t.Version)
		}
		ts.current[t.Name] = t.Version
	}
	for _, t := range list {
		if _, ok := ts.current[t.Name]; !ok {
			return nil, fmt.Errorf("template %q has no current version", t.Name)
		}
	}
	return ts, nil
}

func parseTemplate(t Template) (parsedTemplate, error) {
	p := parsedTemplate{name: t.Name, version: t.Version}
	for _, word := range [...]struct{ what, text string }{{"name", t.Name}, {"version", t.Version}} {
		if !templateWord.MatchString(word.text) {
			return p, fmt.Errorf("its %s has not 1 to 63 letters, digits, dots, dashes and underscores", word.what)
		}
	}
	switch {
	case strings.TrimSpace(t.Text) == "":
		return p, errors.New("its text is empty")
	case len(t.Text) > maxTemplateText:
		return p, fmt.Errorf("its text has more than %d bytes", maxTemplateText)
	case tasks.Clean(t.Text) != t.Text:
		return p, errors.New("its text has a NUL or invalid UTF-8")
	}
	rest := strings.TrimRight(t.Text, "\n")
	for {
		text, after, more := strings.Cut(rest, "{{")
		p.texts = append(p.texts, text)
		if !more {
			return p, nil
		}
		place, tail, closed := strings.Cut(after, "}}")
		if place = strings.TrimSpace(place); !closed || place != "document.id" && place != "document.version" {
			return p, fmt.Errorf("{{%s is no placeholder: those are {{document.id}} and {{document.version}}", tasks.Cut(after, 32))
		}
		if len(p.places) == maxPlaces {
			return p, fmt.Errorf("its text has more than %d placeholders", maxPlaces)
		}
		p.places, rest = append(p.places, place), tail
	}
}

// find reads what a message names: a template, of which the current version is meant, or name@version.
func (ts *Templates) find(text string) (parsedTemplate, *problem) {
	const field = "prompt_template"
	name, version, pinned := strings.Cut(text, "@")
	current, known := ts.current[name]
	if !known {
		return parsedTemplate{}, invalidField(field, "is not the name of a template of this server")
	}
	if !pinned {
		version = current
	}
	t, ok := ts.versions[name+"@"+version]
	if !ok {
		return t, invalidField(field, "names a version that this server does not have")
	}
	return t, nil
}

// render fills the places in, in one pass: what a caller's words look like is never looked at again. A place for what
// the message does not have is refused, since a prompt with a hole in it would be paid for all the same.
func (t parsedTemplate) render(doc tasks.Document) (string, *problem) {
	var b strings.Builder
	b.WriteString(t.texts[0])
	for i, place := range t.places {
		value := doc.ID
		if place == "document.version" {
			value = doc.Version
		}
		if value == "" {
			return "", invalidField(place, "is missing, and the prompt template has a place for it")
		}
		b.WriteString(value)
		b.WriteString(t.texts[i+1])
	}
	return b.String(), nil
}

// apply puts the template's text before the caller's own system text. The request then has all that the call needs: what
// the operator changes later changes nothing for a task that was accepted.
func (t parsedTemplate) apply(r *tasks.Request) *problem {
	text, p := t.render(r.Document)
	if p != nil {
		return p
	}
	if r.System != "" {
		text += "\n\n" + r.System
	}
	r.System = text
	return nil
}
