package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// instant is a time on the wire: RFC 3339, UTC, always with the six digits that Postgres keeps.
type instant time.Time

func (t instant) MarshalJSON() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(make([]byte, 0, 32), `"2006-01-02T15:04:05.000000Z"`), nil
}

// IsZero lets omitzero drop it.
func (t instant) IsZero() bool { return time.Time(t).IsZero() }

// money is an amount in picodollars on the wire: a decimal string of dollars, null when unknown (I7).
type money struct{ pico *int64 }

func (m money) MarshalJSON() ([]byte, error) {
	if m.pico == nil {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, tasks.Dollars(*m.pico)), nil
}

type taskView struct {
	ID                uuid.UUID         `json:"id"`
	Object            string            `json:"object"`
	Workspace         string            `json:"workspace"`
	Conversation      string            `json:"conversation"`
	MessageID         uuid.UUID         `json:"message_id"`
	Kind              tasks.Kind        `json:"kind"`
	Regenerates       uuid.UUID         `json:"regenerates,omitzero"`
	Status            tasks.Status      `json:"status"`
	AcceptedAt        instant           `json:"accepted_at"`
	FinishedAt        instant           `json:"finished_at,omitzero"`
	AvailableAt       instant           `json:"available_at,omitzero"`
	Deadline          instant           `json:"deadline,omitzero"`
	Attempts          int               `json:"attempts"`
	MaxAttempts       int               `json:"max_attempts"`
	Interruptions     int               `json:"interruptions"`
	AssignmentVersion int64             `json:"assignment_version"`
	Model             string            `json:"model"`
	Document          tasks.Document    `json:"document,omitzero"`
	PromptTemplate    string            `json:"prompt_template,omitempty"`
	TemplateVersion   string            `json:"prompt_template_version,omitempty"`
	History           historyView       `json:"history,omitzero"`
	Reply             *replyView        `json:"reply"`
	Error             *errorView        `json:"error"`
	Cost              costView          `json:"cost"`
	Metadata          map[string]string `json:"metadata"`
}

// historyView is how much of the conversation was sent along with the message, and how much was left out.
type historyView struct {
	Turns   int `json:"turns"`
	Dropped int `json:"dropped"`
}

type replyView struct {
	ID              uuid.UUID `json:"id"`
	Text            string    `json:"text"`
	Model           string    `json:"model"`
	FinishReason    string    `json:"finish_reason"`
	SavedAt         instant   `json:"saved_at"`
	Attempt         int       `json:"attempt"`
	PromptTemplate  string    `json:"prompt_template,omitempty"`
	TemplateVersion string    `json:"prompt_template_version,omitempty"`
}

type errorView struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	Attempt int    `json:"attempt"`
}

type costView struct {
	Currency        string `json:"currency"`
	Amount          money  `json:"amount"`
	InputTokens     int64  `json:"input_tokens"`
	OutputTokens    int64  `json:"output_tokens"`
	UnknownAttempts int    `json:"unknown_attempts"`
}

func viewTask(t tasks.Task) taskView {
	v := taskView{
		ID: t.ID, Object: "reply_task", Workspace: t.Workspace, Conversation: t.Conversation, MessageID: t.MessageID,
		Kind: t.Kind, Regenerates: t.Regenerates, Status: t.Status,
		AcceptedAt: instant(t.AcceptedAt), FinishedAt: instant(t.FinishedAt), Deadline: instant(t.Deadline),
		Attempts: t.Attempts, MaxAttempts: t.MaxAttempts, Interruptions: t.Interruptions, AssignmentVersion: t.Version,
		Model: t.Model, Document: t.Document, Metadata: t.Metadata,
		PromptTemplate: t.PromptTemplate, TemplateVersion: t.PromptTemplateVersion,
		History: historyView{Turns: t.HistoryTurns, Dropped: t.HistoryDropped},
		Cost: costView{Currency: "USD", Amount: money{t.Cost.PicoUSD}, InputTokens: t.Cost.InputTokens,
			OutputTokens: t.Cost.OutputTokens, UnknownAttempts: t.Cost.UnknownAttempts},
	}
	if t.Status == tasks.StatusQueued {
		v.AvailableAt = instant(t.AvailableAt)
	}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	if r := t.Reply; r != nil {
		v.Reply = &replyView{ID: r.ID, Text: r.Text, Model: r.Model, FinishReason: r.FinishReason,
			SavedAt: instant(r.SavedAt), Attempt: r.Attempt,
			PromptTemplate: t.PromptTemplate, TemplateVersion: t.PromptTemplateVersion}
	}
	// A completed task keeps what an earlier attempt failed of; its error is none all the same.
	if f := t.Failure; f != nil && t.Status != tasks.StatusCompleted {
		v.Error = &errorView{Class: f.Class, Message: f.Message, Attempt: f.Attempt}
	}
	return v
}

type tasksView struct {
	Tasks []taskView `json:"tasks"`
	Next  string     `json:"next,omitempty"`
}

func viewTasks(page []tasks.Task, next string) tasksView {
	v := tasksView{Tasks: make([]taskView, len(page)), Next: next}
	for i, t := range page {
		v.Tasks[i] = viewTask(t)
	}
	return v
}

// cancelView is the task, and whether the request changed it.
type cancelView struct {
	taskView
	Changed bool   `json:"changed"`
	Detail  string `json:"detail,omitempty"`
}

func viewCancel(t tasks.Task, changed bool) cancelView {
	v := cancelView{taskView: viewTask(t), Changed: changed}
	if !changed {
		v.Detail = "the task was " + string(t.Status) + " already; nothing was changed"
	}
	return v
}

type attemptView struct {
	Attempt           int                  `json:"attempt"`
	AssignmentVersion int64                `json:"assignment_version"`
	Worker            string               `json:"worker"`
	Provider          string               `json:"provider"`
	Model             string               `json:"model"`
	StartedAt         instant              `json:"started_at"`
	EndedAt           instant              `json:"ended_at,omitzero"`
	Outcome           tasks.AttemptOutcome `json:"outcome"`
	FailureClass      string               `json:"failure_class,omitempty"`
	WireRequests      int                  `json:"wire_requests"`
	ProviderRequestID string               `json:"provider_request_id,omitempty"`
	InputTokens       *int64               `json:"input_tokens,omitempty"`
	OutputTokens      *int64               `json:"output_tokens,omitempty"`
	CachedInputTokens *int64               `json:"cached_input_tokens,omitempty"`
	ReasoningTokens   *int64               `json:"reasoning_tokens,omitempty"`
	Amount            money                `json:"amount"`
	PriceVersion      string               `json:"price_version,omitempty"`
	RecoveredFrom     int                  `json:"recovered_from,omitempty"` // the attempt that had made the answer
	History           historyView          `json:"history,omitzero"`
}

type attemptsView struct {
	Attempts []attemptView `json:"attempts"`
}

func viewAttempts(attempts []tasks.Attempt) attemptsView {
	v := attemptsView{Attempts: make([]attemptView, len(attempts))}
	number := make(map[int64]int, len(attempts)) // by version
	for _, a := range attempts {
		number[a.Version] = a.Number
	}
	for i, a := range attempts {
		v.Attempts[i] = attemptView{
			Attempt: a.Number, AssignmentVersion: a.Version, Worker: a.Worker, Provider: a.Provider, Model: a.Model,
			StartedAt: instant(a.StartedAt), EndedAt: instant(a.EndedAt), Outcome: a.Outcome, FailureClass: a.FailureClass,
			WireRequests: a.WireRequests, ProviderRequestID: a.ProviderRequestID,
			InputTokens: a.InputTokens, OutputTokens: a.OutputTokens, Amount: money{a.PicoUSD},
			CachedInputTokens: a.CachedInputTokens, ReasoningTokens: a.ReasoningTokens, PriceVersion: a.PriceVersion,
			RecoveredFrom: number[a.Recovered], History: historyView{Turns: a.HistoryTurns, Dropped: a.HistoryDropped},
		}
	}
	return v
}

type messageView struct {
	ID        uuid.UUID       `json:"id"`
	Role      string          `json:"role"`
	Content   string          `json:"content"`
	CreatedAt instant         `json:"created_at"`
	Replies   []savedResponse `json:"replies"`
}

type savedResponse struct {
	ID      uuid.UUID `json:"id"`
	Task    uuid.UUID `json:"task"`
	Text    string    `json:"text"`
	Model   string    `json:"model"`
	SavedAt instant   `json:"saved_at"`
	Current bool      `json:"current"`
}

type conversationView struct {
	Messages []messageView `json:"messages"`
	Next     string        `json:"next,omitempty"`
}

func viewConversation(page []tasks.Message, next string) conversationView {
	v := conversationView{Messages: make([]messageView, len(page)), Next: next}
	for i, m := range page {
		replies := make([]savedResponse, len(m.Replies))
		for j, r := range m.Replies {
			replies[j] = savedResponse{ID: r.ID, Task: r.TaskID, Text: r.Text, Model: r.Model, SavedAt: instant(r.SavedAt),
				Current: j == len(m.Replies)-1}
		}
		v.Messages[i] = messageView{ID: m.ID, Role: "user", Content: m.Content, CreatedAt: instant(m.CreatedAt), Replies: replies}
	}
	return v
}

func writeJSON(w http.ResponseWriter, status int, v any) (int, error) {
	w.Header()["Content-Type"] = []string{"application/json"}
	writeBody(w, status, v)
	return status, nil
}

// writeBody sends v in one piece, so that the answer has its length and a short one goes out in one packet.
func writeBody(w http.ResponseWriter, status int, v any) {
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// The views hold nothing that has no JSON.
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h["Content-Length"] = []string{strconv.Itoa(buf.Len())}
	h["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a client that has gone is no error of ours
}
