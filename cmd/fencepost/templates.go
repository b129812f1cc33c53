package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks/httpapi"
)

// maxTemplatesFile bounds the operator's file, in bytes.
const maxTemplatesFile = 8 << 20

// templatesFile is the file of --prompt-templates. A key is a template's name, and stands for its current version; an older
// one that messages may still name is NAME@VERSION.
type templatesFile struct {
	Templates map[string]struct {
		Version string `yaml:"version"`
		Text    string `yaml:"text"`
	} `yaml:"templates"`
}

// promptTemplates are those of the operator's file; nil without one.
func promptTemplates(path string) (*httpapi.Templates, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readTemplates(path)
	if err != nil {
		return nil, cli.Usage("", "--prompt-templates: %v", err)
	}
	templates, err := parseTemplates(text)
	if err != nil {
		return nil, cli.Usage("for example:\n  templates:\n    support: {version: \"3\", text: \"You answer for ACME.\"}", "--prompt-templates: %s: %v", path, err)
	}
	return templates, nil
}

func readTemplates(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxTemplatesFile+1))
	if err == nil && len(text) > maxTemplatesFile {
		err = fmt.Errorf("%s: is larger than %d bytes", path, maxTemplatesFile)
	}
	return text, err
}

func parseTemplates(text []byte) (*httpapi.Templates, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var file templatesFile
	if err := d.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("is empty")
		}
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more than one YAML document")
	}
	list := make([]httpapi.Template, 0, len(file.Templates))
	for key, t := range file.Templates {
		name, version, old := strings.Cut(key, "@")
		switch {
		case !old:
			version = t.Version
		case t.Version != "" && t.Version != version:
			return nil, fmt.Errorf("template %q says that its version is %q", key, t.Version)
		}
		if version == "" {
			return nil, fmt.Errorf("template %q has no version", key)
		}
		list = append(list, httpapi.Template{Name: name, Version: version, Text: t.Text, Current: !old})
	}
	return httpapi.NewTemplates(list)
}
