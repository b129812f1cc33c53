package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// opKey names an attempt in the metadata of what it makes. OpenAI takes 64 characters for a key and 512 for a value.
const opKey = "fencepost_op"

// recoverStored looks for a stored chat completion by the attempt's name, and waits for it as long as it may still appear:
// a list shows whole answers only.
func (p *Provider) recoverStored(ctx context.Context, req llm.Request, lost llm.Lost) (llm.Answer, error) {
	if f := p.Recovery.Forgotten(lost); f != nil {
		return llm.Answer{}, f
	}
	if llm.CheckOp(lost.Op) != nil {
		return llm.Answer{}, llm.NoTrace("the earlier call had no name that it could be stored under", llm.Report{})
	}
	settled := time.Now().Add(p.Recovery.SettleDelay - lost.Age)
	question := llm.Lookup{
		Method: http.MethodGet,
		Path:   "/chat/completions?" + url.Values{"metadata[" + opKey + "]": {lost.Op}, "limit": {"20"}}.Encode(),
		Header: bearer(p.Endpoint, http.Header{}),
	}
	hide := p.Hide(req)
	poll := llm.Polling{Every: p.Recovery.PollEvery}
	for {
		last := !time.Now().Before(settled)
		resp, f := p.Ask(ctx, question)
		answered, giveUp := poll.Answered(resp, f, hide...)
		switch {
		case giveUp != nil:
			return llm.Answer{}, giveUp
		case answered && resp.Status > 299:
			return llm.Answer{}, llm.NoTrace("the server has no list of stored completions", llm.Report{Lookups: poll.Lookups})
		case answered:
			stored, ok := storedUnder(resp.Body, lost.Op)
			if !ok {
				f := llm.NoTrace("the list of stored completions cannot be read", llm.Report{Lookups: poll.Lookups})
				f.Class, f.Err = llm.NotSent, errNotCompletion
				return llm.Answer{}, f
			}
			if stored != nil {
				// The request id of the question is not the call's.
				answer, err := decodeAnswer(llm.Response{Status: http.StatusOK, Body: stored}, llm.Wire{}, req.Chat.OffersTools(), hide...)
				if last || !ambiguous(err) {
					return asked(answer, llm.Ended(err), poll.Lookups)
				}
			} else if last {
				return llm.Answer{}, llm.NoTrace("no completion is stored under the name of the earlier call", llm.Report{Lookups: poll.Lookups})
			}
		}
		if !poll.Pause(ctx) {
			return asked(llm.Answer{}, stopped(ctx), poll.Lookups)
		}
	}
}

// storedUnder returns the completion of a list that carries the name. A server that does not know the filter lists other
// calls' answers, so each is looked at. False: it is no list.
func storedUnder(body []byte, op string) (completion []byte, ok bool) {
	var list struct {
		Data *[]json.RawMessage `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || list.Data == nil {
		return nil, false
	}
	for _, item := range *list.Data {
		var c struct {
			Metadata map[string]string `json:"metadata"`
		}
		if json.Unmarshal(item, &c) == nil && c.Metadata[opKey] == op {
			return item, true
		}
	}
	return nil, true
}

// stopped is the failure of a recovery whose context ended while there was nothing to say yet.
func stopped(ctx context.Context) *llm.Failure {
	f := llm.Interrupted(ctx, false)
	f.Message = "stopped before the earlier call was found: " + f.Message
	return f
}

// asked adds the look-ups to what they came to.
func asked(answer llm.Answer, err error, lookups int) (llm.Answer, error) {
	answer.Lookups = lookups
	if f, ok := err.(*llm.Failure); ok {
		f.Lookups = lookups
	}
	if err != nil {
		return llm.Answer{}, err
	}
	return answer, nil
}

func ambiguous(err error) bool {
	f, ok := err.(*llm.Failure)
	return ok && f.Class == llm.Ambiguous
}
