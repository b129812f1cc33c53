package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"sync"
)

// docsPage is made from the OpenAPI document once; it needs neither a network nor JavaScript.
var docsPage = sync.OnceValues(func() ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(openAPI, &document); err != nil {
		return nil, err
	}
	page, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = page.Execute(&b, document)
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
