package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// httpClient gives up on a node that stands still; idle connections are closed by the tests' end.
var httpClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 300}}

func get(ctx context.Context, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	return do(req)
}

func do(req *http.Request) (int, []byte, error) {
	resp, err := httpClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// Client is a caller of the API that knows several addresses and repeats what was not answered.
type Client struct {
	Key   string
	Nodes []*Node

	// Repeats counts requests that were sent again, Replays the answers that said so.
	Repeats, Replays atomic.Int64
	next             atomic.Int64
}

// Task is what the API says of a task, as far as the tests need it.
type Task struct {
	ID           string `json:"id"`
	MessageID    string `json:"message_id"`
	Conversation string `json:"conversation"`
	Status       string `json:"status"`
	Attempts     int    `json:"attempts"`
	MaxAttempts  int    `json:"max_attempts"`
	Error        *struct {
		Class string `json:"class"`
	} `json:"error"`
	Reply *struct {
		Text string `json:"text"`
	} `json:"reply"`
}

// Submit sends a message until it is accepted, under the same key, to one address after the other.
func (c *Client) Submit(ctx context.Context, conversation, key, content string) (Task, error) {
	return c.Send(ctx, conversation, key, map[string]any{"content": content})
}

// Send is Submit with all fields of a message.
func (c *Client) Send(ctx context.Context, conversation, key string, message map[string]any) (Task, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return Task{}, err
	}
	for try := 0; ; try++ {
		node := c.Nodes[int(c.next.Add(1))%len(c.Nodes)]
		req, err := http.NewRequestWithContext(ctx, http.MethodPost,
			node.API+"/v1/conversations/"+url.PathEscape(conversation)+"/messages", strings.NewReader(string(body)))
		if err != nil {
			return Task{}, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+c.Key)
		req.Header.Set("Idempotency-Key", key)
		if try > 0 {
			c.Repeats.Add(1)
		}
		resp, err := httpClient.Do(req)
		if err == nil {
			var answer []byte
			answer, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			switch status := resp.StatusCode; {
			case err != nil: // cut off: unknown, so once more
			case status == http.StatusAccepted:
				if resp.Header.Get("Idempotency-Replayed") == "true" {
					c.Replays.Add(1)
				}
				var task Task
				return task, json.Unmarshal(answer, &task)
			case status >= 500 || status == http.StatusConflict || status == http.StatusTooManyRequests:
				err = fmt.Errorf("%d %s", status, answer)
			default:
				return Task{}, fmt.Errorf("submit %s: %d %s", key, status, answer)
			}
		}
		select {
		case <-ctx.Done():
			return Task{}, fmt.Errorf("submit %s: %w (last: %w)", key, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Do sends one request and does not repeat it.
func (c *Client) Do(ctx context.Context, method, path, key string, message map[string]any) (int, []byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return 0, nil, err
	}
	node := c.Nodes[int(c.next.Add(1))%len(c.Nodes)]
	req, err := http.NewRequestWithContext(ctx, method, node.API+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.Key)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return do(req)
}

// Replies reads a conversation as a person sees it: the texts of each message's replies, in the order of the messages.
func (c *Client) Replies(ctx context.Context, conversation string) (contents []string, replies [][]string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		c.Nodes[0].API+"/v1/conversations/"+url.PathEscape(conversation)+"/messages", nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	status, body, err := do(req)
	if err != nil {
		return nil, nil, err
	}
	if status != http.StatusOK {
		return nil, nil, fmt.Errorf("conversation %s: %d %s", conversation, status, body)
	}
	var page struct {
		Messages []struct {
			Content string `json:"content"`
			Replies []struct {
				Text string `json:"text"`
			} `json:"replies"`
		} `json:"messages"`
		Next string `json:"next"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, nil, err
	}
	if page.Next != "" {
		return nil, nil, fmt.Errorf("conversation %s is longer than a page", conversation)
	}
	for _, m := range page.Messages {
		var texts []string
		for _, r := range m.Replies {
			texts = append(texts, r.Text)
		}
		contents, replies = append(contents, m.Content), append(replies, texts)
	}
	return contents, replies, nil
}
