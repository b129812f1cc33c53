package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

type spendView struct {
	By       tasks.SpendBy  `json:"by"`
	Currency string         `json:"currency"`
	Spend    []spendRowView `json:"spend"`
	Total    spendSumView   `json:"total"` // of all pages
	Next     string         `json:"next,omitempty"`
}

// spendRowView has the one of the first four that by names; what is of no document has none.
type spendRowView struct {
	Document     tasks.Document `json:"document,omitzero"`
	Model        *string        `json:"model,omitempty"`
	Conversation string         `json:"conversation,omitempty"`
	Day          string         `json:"day,omitempty"`
	spendSumView
}

// spendSumView is a sum. Its amount is of what is known, and null where nothing is (I7).
type spendSumView struct {
	Attempts          int64         `json:"attempts"`
	InputTokens       int64         `json:"input_tokens"`
	CachedInputTokens int64         `json:"cached_input_tokens"`
	OutputTokens      int64         `json:"output_tokens"`
	ReasoningTokens   int64         `json:"reasoning_tokens"`
	Amount            money         `json:"amount"`
	UnknownAttempts   int64         `json:"unknown_attempts"`
	UnpricedAttempts  int64         `json:"unpriced_attempts"`
	NotAccepted       spendPartView `json:"not_accepted"`
	Saved             savedView     `json:"saved"`
}

type spendPartView struct {
	Attempts int64  `json:"attempts"`
	Amount   string `json:"amount"`
}

type savedView struct {
	Replays int64  `json:"replays"`
	Amount  string `json:"amount"`
}

func viewSpend(q tasks.SpendQuery, spent tasks.Spent) spendView {
	v := spendView{By: q.By, Currency: "USD", Spend: make([]spendRowView, len(spent.Rows)), Total: viewSpendSum(spent.Total)}
	for i, r := range spent.Rows {
		v.Spend[i] = viewSpendRow(q.By, r)
	}
	if spent.Next != nil {
		v.Next = spendCursor(q.By, *spent.Next)
	}
	return v
}

func viewSpendRow(by tasks.SpendBy, r tasks.SpendRow) spendRowView {
	v := spendRowView{Document: r.Document, Conversation: r.Conversation, spendSumView: viewSpendSum(r.Spend)}
	switch by {
	case tasks.SpendByModel:
		v.Model = &r.Model
	case tasks.SpendByDay:
		v.Day = r.Day.Format(time.DateOnly)
	}
	return v
}

func viewSpendSum(s tasks.Spend) spendSumView {
	v := spendSumView{
		Attempts: s.Attempts, InputTokens: s.InputTokens, CachedInputTokens: s.CachedInputTokens, OutputTokens: s.OutputTokens,
		ReasoningTokens: s.ReasoningTokens, UnknownAttempts: s.UnknownAttempts, UnpricedAttempts: s.UnpricedAttempts,
		NotAccepted: spendPartView{s.NotAccepted.Attempts, tasks.Dollars(s.NotAccepted.PicoUSD)},
		Saved:       savedView{s.Saved.Replays, tasks.Dollars(s.Saved.PicoUSD)},
	}
	if s.Known() {
		v.Amount.pico = &s.PicoUSD
	}
	return v
}

// getSpend answers a page of sums over the workspace's ledger.
func (s *Server) getSpend(c *call) (int, error) {
	if s.spending == nil {
		return 0, noRoute()
	}
	q, p := params(c.r, "by", "document", "from", "to", "limit", "after")
	if p != nil {
		return 0, p
	}
	query := tasks.SpendQuery{Workspace: c.workspace, By: tasks.SpendByDay}
	if text, ok := q["by"]; ok {
		query.By = tasks.SpendBy(text)
		if (tasks.SpendQuery{By: query.By}).Check() != nil {
			return 0, invalidField("by", "is not one of %v", tasks.SpendBys)
		}
	}
	if text, ok := q["document"]; ok {
		if text == "" || len(text) > maxDocument || tasks.Clean(text) != text {
			return 0, invalidField("document", "is not 1 to %d bytes of text", maxDocument)
		}
		query.Document = text
	}
	for name, day := range map[string]*time.Time{"from": &query.From, "to": &query.To} {
		if text, ok := q[name]; ok {
			var err error
			if *day, err = time.Parse(time.DateOnly, text); err != nil || day.Year() < 1 {
				return 0, invalidField(name, "is not a day in UTC, like 2026-11-30")
			}
		}
	}
	if text, ok := q["after"]; ok {
		if query.After, ok = spendKey(query.By, text); !ok {
			return 0, invalidField("after", "is not what a page had in next")
		}
	}
	if query.Limit, p = s.pageSize(q); p != nil {
		return 0, p
	}
	ctx, cancel := s.read(c)
	defer cancel()
	spent, err := s.spending.Spend(ctx, query)
	if err != nil {
		return 0, err
	}
	return writeJSON(c.w, http.StatusOK, viewSpend(query, spent))
}

// spendCursor names a sum in next, with what it is by, so that it leads nowhere else.
func spendCursor(by tasks.SpendBy, k tasks.SpendKey) string {
	var parts [3]string
	switch parts[0] = string(by); by {
	case tasks.SpendByModel:
		parts[1] = k.Model
	case tasks.SpendByConversation:
		parts[1] = k.Conversation
	case tasks.SpendByDay:
		parts[1] = k.Day.Format(time.DateOnly)
	default:
		parts[1], parts[2] = k.Document.ID, k.Document.Version
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return "" // not of strings
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func spendKey(by tasks.SpendBy, cursor string) (k *tasks.SpendKey, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	var parts []string
	if err != nil || json.Unmarshal(b, &parts) != nil || len(parts) != 3 || parts[0] != string(by) {
		return nil, false
	}
	k = new(tasks.SpendKey)
	switch by {
	case tasks.SpendByModel:
		k.Model = parts[1]
	case tasks.SpendByConversation:
		k.Conversation = parts[1]
	case tasks.SpendByDay:
		k.Day, err = time.Parse(time.DateOnly, parts[1])
	default:
		k.Document = tasks.Document{ID: parts[1], Version: parts[2]}
	}
	return k, err == nil
}
