package httpapi

import (
	"net/http"
	"strconv"
	"strings"
)

// codeKeyMissing is the code of keyMissing.
const codeKeyMissing = "idempotency_key_missing"

// chatErrorView is an error as OpenAI's SDKs read it, with the codes of this API.
type chatErrorView struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
		TaskID  string  `json:"task_id,omitempty"`
	} `json:"error"`
}

func viewChatError(p *problem) (v chatErrorView) {
	v.Error.Message, v.Error.Code, v.Error.TaskID = p.Detail, p.Code, p.TaskID
	if p.Field != "" {
		v.Error.Param = &p.Field
	}
	switch {
	case p.Code == "quota" || p.Code == "budget_exhausted":
		v.Error.Type = "insufficient_quota"
	case p.Status == http.StatusUnauthorized:
		v.Error.Type = "authentication_error"
	case p.Status == http.StatusForbidden:
		v.Error.Type = "permission_error"
	case p.Status == http.StatusTooManyRequests:
		v.Error.Type = "rate_limit_error"
	case p.Status >= http.StatusInternalServerError:
		v.Error.Type = "server_error"
	default:
		v.Error.Type = "invalid_request_error"
	}
	return v
}

// doorPath reports whether errors of the path have OpenAI's shape.
func doorPath(path string) bool {
	return path == "/v1/models" || path == "/v1/chat" || strings.HasPrefix(path, "/v1/models/") || strings.HasPrefix(path, "/v1/chat/")
}

// retries reports whether the same request may come to something else in a moment, so that an SDK should repeat it.
func (p *problem) retries() bool {
	switch {
	case p.final, p.Code == "budget_exhausted":
		return false
	case p.Status == http.StatusConflict, p.Status == http.StatusTooManyRequests:
		return true
	}
	return p.Status >= http.StatusInternalServerError
}

// writeChat sends the problem in OpenAI's shape. SDKs decide by the status whether to repeat, and some of our statuses mean
// something else here than there: the header decides.
func (p *problem) writeChat(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Should-Retry", strconv.FormatBool(p.retries()))
	p.writeHeaders(h)
	writeBody(w, p.Status, viewChatError(p))
}
