package consumer

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// perMessage is about what providers add to a message, in tokens.
const perMessage = 4

// fitHistory drops the oldest turns that do not fit into the limit. A turn is kept whole or not at all.
func fitHistory(h tasks.History, tokens int) tasks.History {
	first := len(h.Turns)
	for first > 0 {
		turn := h.Turns[first-1]
		need := llm.EstimateTokens(turn.Content) + perMessage
		if turn.Reply != "" {
			need += llm.EstimateTokens(turn.Reply) + perMessage
		}
		if need > tokens {
			break
		}
		tokens -= need
		first--
	}
	return tasks.History{Turns: h.Turns[first:], Dropped: h.Dropped + first}
}

// prompt is what is sent for a task: the system text, in which the template is, the document it is about, the conversation
// so far, the message. What came through the OpenAI-compatible door is sent as it came, and says all of it.
func prompt(r tasks.Request, h tasks.History) llm.Request {
	req := llm.Request{
		Model: r.Model, System: r.System, Content: r.Content, Temperature: r.Temperature, MaxOutputTokens: r.MaxOutputTokens,
	}
	if c := r.Chat; c != nil {
		req.Chat = &llm.Chat{Messages: c.Messages, Params: c.Params}
		return req
	}
	if d := r.Document; d.ID != "" {
		about := "Document: " + d.ID
		if d.Version != "" {
			about += ", version " + d.Version
		}
		if req.System != "" {
			about = req.System + "\n\n" + about
		}
		req.System = about
	}
	for _, turn := range h.Turns {
		req.History = append(req.History, llm.Message{Role: llm.RoleUser, Text: turn.Content})
		if turn.Reply != "" {
			req.History = append(req.History, llm.Message{Role: llm.RoleAssistant, Text: turn.Reply})
		}
	}
	return req
}

// historyTries is how often the conversations of a batch are read before its assignments are handed back.
const historyTries = 3

// readHistories completes jobs with what was said before their messages, in one statement. False: it could not be read.
func (c *Consumer) readHistories(ctx context.Context, jobs []*job) bool {
	if len(jobs) == 0 || c.cfg.HistoryTurns < 0 {
		return true
	}
	works := make([]*tasks.Work, len(jobs))
	for i, j := range jobs {
		works[i] = j.work
	}
	limits := tasks.HistoryLimits{Turns: c.cfg.HistoryTurns, Bytes: c.cfg.HistoryTokens * llm.ASCIIPerToken}
	pause := backoff{base: 50 * time.Millisecond, max: time.Second}
	for range historyTries {
		storeCtx, cancel := context.WithTimeout(ctx, storeTimeout)
		histories, err := c.store.Histories(storeCtx, limits, works)
		cancel()
		if err == nil {
			for i, j := range jobs {
				j.history = fitHistory(histories[i], c.cfg.HistoryTokens)
			}
			return true
		}
		c.metrics.storeErrors.WithLabelValues("histories").Inc()
		c.log.Warn("reading conversations failed", "tasks", len(jobs), "error", err)
		sleep(ctx, pause.next())
	}
	return false
}
