package httpapi

import "net/http"

type modelView struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type modelsView struct {
	Object string      `json:"object"`
	Data   []modelView `json:"data"`
}

// getModels lists the models that this server names: its default. A request may ask for any that the provider has.
func (s *Server) getModels(c *call) (int, error) {
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	v := modelsView{Object: "list", Data: []modelView{}}
	if s.defaults.Model != "" {
		v.Data = append(v.Data, modelView{ID: s.defaults.Model, Object: "model", OwnedBy: "fencepost"})
	}
	return writeJSON(c.w, http.StatusOK, v)
}
