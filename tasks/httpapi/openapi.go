package httpapi

import (
	_ "embed"
	"net/http"
	"strconv"
)

// openAPI describes every route: openapi_test.go holds the two together.
//
//go:embed openapi.json
var openAPI []byte

// getOpenAPI answers the OpenAPI document. It needs no key: it says nothing of any workspace.
func getOpenAPI(c *call) (int, error) {
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	return writePage(c.w, "application/json", openAPI), nil
}

// writePage sends what is the same for everyone until the program is another.
func writePage(w http.ResponseWriter, contentType string, page []byte) int {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(page)))
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(page) // a client that has gone is no error of ours
	return http.StatusOK
}
