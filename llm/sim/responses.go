package sim

import (
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
)

var responses = &protocol{
	idHeader: "X-Request-Id", prefix: "resp_sim_", parse: parseResponses, body: responsesBody, events: responsesEvents, refusal: errorBody,
	failure: responsesFailure, failed: true,
}

// parseResponses reads what is used of a request and ignores the rest, as servers do.
func parseResponses(body []byte) (call, error) {
	var req struct {
		Model           string            `json:"model"`
		Input           json.RawMessage   `json:"input"`
		Instructions    string            `json:"instructions"`
		MaxOutputTokens *int64            `json:"max_output_tokens"`
		Metadata        map[string]string `json:"metadata"`
		Store           *bool             `json:"store"`
		Background      bool              `json:"background"`
		Stream          bool              `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return call{}, errors.New("the body is not a request for a response")
	}
	if req.Model == "" {
		return call{}, errors.New("you must provide a model parameter")
	}
	c := call{
		model: req.Model, stream: req.Stream, usage: true, metadata: req.Metadata, background: req.Background, store: req.Store == nil || *req.Store,
	}
	if c.background && !c.store {
		return call{}, errors.New("background mode requires store=true")
	}
	size := 0
	c.hear("system", req.Instructions, &size)
	if err := c.hearInput(req.Input, &size); err != nil {
		return call{}, err
	}
	c.input = tokens(size)
	return c, errors.Join(c.limitTo(req.MaxOutputTokens), checkMetadata(req.Metadata))
}

// hearInput takes a string, or a list of messages.
func (c *call) hearInput(raw json.RawMessage, size *int) error {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		c.hear("user", text, size)
		return nil
	}
	var list []struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return errors.New("input must be a text or a list of messages, and not empty")
	}
	for _, m := range list {
		if m.Type != "" && m.Type != "message" {
			continue
		}
		text, err := contentText(m.Content)
		if err != nil {
			return err
		}
		c.hear(m.Role, text, size)
	}
	return nil
}

// Answers as they go on the wire.
type (
	response struct {
		ID         string            `json:"id"`
		Object     string            `json:"object"`
		CreatedAt  int64             `json:"created_at"`
		Status     string            `json:"status,omitempty"`
		Background bool              `json:"background"`
		Error      json.RawMessage   `json:"error"`
		Incomplete *incomplete       `json:"incomplete_details"`
		MaxOutput  *int64            `json:"max_output_tokens"`
		Metadata   map[string]string `json:"metadata"`
		Model      string            `json:"model"`
		Output     []outputItem      `json:"output"`
		Parallel   bool              `json:"parallel_tool_calls"`
		Store      bool              `json:"store"`
		ToolChoice string            `json:"tool_choice"`
		Tools      []struct{}        `json:"tools"`
		Usage      *responsesUsage   `json:"usage"`
	}
	incomplete struct {
		Reason string `json:"reason"`
	}
	outputItem struct {
		ID        string       `json:"id"`
		Type      string       `json:"type"`
		Status    string       `json:"status"`
		Role      string       `json:"role,omitempty"`
		Content   []outputPart `json:"content,omitzero"`
		CallID    string       `json:"call_id,omitempty"`
		Name      string       `json:"name,omitempty"`
		Arguments *string      `json:"arguments,omitempty"`
	}
	outputPart struct {
		Type        string     `json:"type"`
		Text        *string    `json:"text,omitempty"`
		Annotations []struct{} `json:"annotations,omitzero"`
		LogProbs    []struct{} `json:"logprobs,omitzero"`
		Refusal     *string    `json:"refusal,omitempty"`
	}
	responsesUsage struct {
		InputTokens   int64         `json:"input_tokens"`
		InputDetails  promptDetails `json:"input_tokens_details"`
		OutputTokens  int64         `json:"output_tokens"`
		OutputDetails outputDetails `json:"output_tokens_details"`
		TotalTokens   int64         `json:"total_tokens"`
	}
)

// part is the content of an answer, with the text so far.
func part(rep *reply, text string) outputPart {
	if rep.refused {
		return outputPart{Type: "refusal", Refusal: &text}
	}
	return outputPart{Type: "output_text", Text: &text, Annotations: []struct{}{}, LogProbs: []struct{}{}}
}

// item is the one item of an answer's output, in a state.
func item(g *generation, state string) outputItem {
	if g.rep.tool {
		args := "{}"
		return outputItem{ID: "fc_sim_" + strconv.FormatInt(g.n, 10), Type: "function_call", Status: state, CallID: "call_sim_1", Name: "unoffered", Arguments: &args}
	}
	out := outputItem{ID: "msg_sim_" + strconv.FormatInt(g.n, 10), Type: "message", Status: state, Role: "assistant", Content: []outputPart{}}
	if state != "in_progress" {
		out.Content = append(out.Content, part(&g.rep, g.rep.text))
	}
	return out
}

func responsesBody(g *generation, state string) any {
	out := response{
		ID: g.id, Object: "response", CreatedAt: created, Status: state, Background: g.call.background, Metadata: g.call.metadata,
		Model: g.call.model, Output: []outputItem{}, Parallel: true, Store: g.call.store, ToolChoice: "auto", Tools: []struct{}{},
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if g.call.limit > 0 {
		out.MaxOutput = &g.call.limit
	}
	switch state {
	case "failed":
		if out.Error = g.rep.failure; out.Error == nil {
			out.Error = json.RawMessage(`{"code":"server_error","message":"simulated failure"}`)
		}
		return out
	case "incomplete":
		out.Incomplete = &incomplete{"max_output_tokens"}
		if g.rep.word != nil {
			out.Incomplete.Reason = *g.rep.word
		}
	case "completed":
		if g.rep.word != nil {
			out.Status = ""
		}
	default:
		return out
	}
	if g.rep.text != "" || g.rep.tool {
		out.Output = append(out.Output, item(g, state))
	}
	if !g.rep.noUsage {
		out.Usage = &responsesUsage{
			g.rep.input, promptDetails{g.rep.cached, g.rep.cacheWrite}, g.rep.output, outputDetails{g.rep.reasoning}, g.rep.input + g.rep.output,
		}
	}
	return out
}

func responsesEvents(g *generation) iter.Seq[event] {
	return func(yield func(event) bool) {
		index := int64(0)
		put := func(kind eventKind, name string, text int, fields map[string]any) bool {
			fields["type"], fields["sequence_number"] = name, index
			index++
			return yield(event{kind: kind, name: name, data: fields, text: text})
		}
		whole := func(kind eventKind, name, state string) bool {
			body := responsesBody(g, state)
			if r := body.(response); g.rep.earlyUsage && kind != kindMarker {
				r.Usage = &responsesUsage{}
				body = r
			}
			return put(kind, name, 0, map[string]any{"response": body})
		}
		first := "in_progress"
		if g.call.background {
			first = "queued"
		}
		if !whole(kindOpening, "response.created", first) ||
			g.call.background && !whole(kindOpening, "response.queued", "queued") ||
			!whole(kindOpening, "response.in_progress", "in_progress") {
			return
		}
		if (g.rep.text != "" || g.rep.tool) && !responsesItem(g, put) {
			return
		}
		state := g.outcome()
		whole(kindMarker, "response."+state, state)
	}
}

// responsesItem is the item of an answer, piece by piece.
func responsesItem(g *generation, put func(eventKind, string, int, map[string]any) bool) bool {
	begun := item(g, "in_progress")
	at := func(fields map[string]any) map[string]any {
		fields["output_index"], fields["item_id"] = 0, begun.ID
		return fields
	}
	if !put(kindFrame, "response.output_item.added", 0, map[string]any{"output_index": 0, "item": begun}) {
		return false
	}
	final := "completed"
	if g.outcome() == "incomplete" {
		final = "incomplete"
	}
	end := func() bool {
		return put(kindClosing, "response.output_item.done", 0, map[string]any{"output_index": 0, "item": item(g, final)})
	}
	if g.rep.tool {
		return put(kindPiece, "response.function_call_arguments.delta", 0, at(map[string]any{"delta": "{}"})) &&
			put(kindClosing, "response.function_call_arguments.done", 0, at(map[string]any{"arguments": "{}", "name": "unoffered"})) && end()
	}
	inPart := func(fields map[string]any) map[string]any {
		fields["content_index"] = 0
		return at(fields)
	}
	if !put(kindFrame, "response.content_part.added", 0, inPart(map[string]any{"part": part(&g.rep, "")})) {
		return false
	}
	kind, whole := "output_text", "text"
	if g.rep.refused {
		kind, whole = "refusal", "refusal"
	}
	for p := range split(g.rep.text) {
		if !put(kindPiece, "response."+kind+".delta", len(p), inPart(map[string]any{"delta": p, "logprobs": []struct{}{}})) {
			return false
		}
	}
	return put(kindClosing, "response."+kind+".done", 0, inPart(map[string]any{whole: g.rep.text, "logprobs": []struct{}{}})) &&
		put(kindClosing, "response.content_part.done", 0, inPart(map[string]any{"part": part(&g.rep, g.rep.text)})) && end()
}

// responsesFailure is an error in a stream, which has no object of its own.
func responsesFailure(index int64, data []byte) event {
	var body struct {
		Error struct {
			Message string  `json:"message"`
			Code    *string `json:"code"`
			Type    string  `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil || body.Error.Message == "" {
		return event{name: "error", data: data}
	}
	if body.Error.Code == nil {
		body.Error.Code = &body.Error.Type
	}
	return event{name: "error", data: map[string]any{
		"type": "error", "code": body.Error.Code, "message": body.Error.Message, "param": nil, "sequence_number": index,
	}}
}

// serveResponse is GET /v1/responses/{id}: as it stands, or its events behind a place.
func (s *Server) serveResponse(w http.ResponseWriter, req *http.Request) {
	g, ok := s.find(w, req, responses, lookupGet)
	if !ok {
		return
	}
	if req.URL.Query().Get("stream") != "true" {
		writeBody(w, http.StatusOK, encode(g, g.state(now())))
		return
	}
	after := int64(-1)
	if v := req.URL.Query().Get("starting_after"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			writeError(w, http.StatusBadRequest, "starting_after must be a sequence number")
			return
		}
		after = n
	}
	if !g.call.stream || !g.call.background {
		writeError(w, http.StatusBadRequest, "only a response that was created in the background, with a stream, can be streamed again")
		return
	}
	x := &exchange{s: s, w: w, ctx: req.Context(), g: g, status: http.StatusOK}
	x.resume(after)
}

// serveCancel is POST /v1/responses/{id}/cancel.
func (s *Server) serveCancel(w http.ResponseWriter, req *http.Request) {
	g, ok := s.find(w, req, responses, lookupCancel)
	if !ok {
		return
	}
	if !g.call.background {
		writeError(w, http.StatusBadRequest, "only a response in the background can be cancelled")
		return
	}
	if s.settings.get().CancelWins {
		g.cancel()
		select {
		case <-g.done:
		case <-s.closing.Done():
		}
	}
	writeBody(w, http.StatusOK, encode(g, g.state(now())))
}
