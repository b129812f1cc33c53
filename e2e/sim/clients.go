package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/fencepost/fencepost/e2e/history"
)

// client is a person with a browser: sends one message, again and again until it is answered, and may look at it, cancel
// it, send it twice at once, or send something else under its key.
type client struct {
	w         *world
	n         int
	workspace string
	talk      string // conversation
	rand      *rand.Rand
}

func (w *world) startClients(wg *sync.WaitGroup) {
	for n := range w.plan.messages {
		r := rand.New(rand.NewPCG(w.seed, uint64(n)<<8+1))
		c := &client{w: w, n: n, workspace: pick(r, workspaces...), talk: fmt.Sprintf("talk-%d", r.IntN(w.plan.conversations)), rand: r}
		begin := time.Duration(r.Int64N(int64(w.plan.arrivals)))
		wg.Go(func() {
			time.Sleep(begin)
			c.run(wg)
		})
	}
}

func (c *client) run(wg *sync.WaitGroup) {
	if c.rand.IntN(10) == 0 {
		twin := *c
		twin.rand = rand.New(rand.NewPCG(c.w.seed, uint64(c.n)<<8+2))
		wg.Go(func() { twin.submit(c.content(), 2) })
	}
	task := c.submit(c.content(), 60)
	if task == "" {
		return
	}
	if c.rand.IntN(6) == 0 {
		other := c.content() + ", please"
		if id := c.submit(other, 3); id != "" {
			c.w.rec.count("key reused: answered")
		}
	}
	for range c.rand.IntN(3) {
		time.Sleep(time.Duration(c.rand.Int64N(int64(10 * time.Second))))
		c.look(c.workspace, task)
	}
	if c.rand.IntN(4) == 0 {
		c.look(other(c.workspace), task)
	}
	switch c.rand.IntN(12) {
	case 0:
		c.cancel(c.workspace, task)
	case 1:
		c.cancel(other(c.workspace), task)
	}
}

func (c *client) content() string { return fmt.Sprintf("message %d", c.n) }

func other(workspace string) string {
	if workspace == workspaces[0] {
		return workspaces[1]
	}
	return workspaces[0]
}

// body asks for less than the defaults now and then.
func (c *client) body(content string) string {
	extra := ""
	switch c.n % 9 {
	case 0:
		extra = `,"max_attempts":1`
	case 1:
		extra = `,"max_attempts":2,"on_ambiguous":"stop"`
	case 2:
		extra = `,"deadline_seconds":30`
	}
	return fmt.Sprintf(`{"content":%q%s}`, content, extra)
}

// budget is what body allows.
func (c *client) budget() int {
	switch c.n % 9 {
	case 0:
		return 1
	case 1:
		return 2
	}
	return 4
}

// submit sends the message until it is accepted or refused, and returns its task.
func (c *client) submit(content string, tries int) string {
	key := fmt.Sprintf("key-%d", c.n)
	for range tries {
		e := history.Event{
			ID: c.w.rec.ids(1), Proc: fmt.Sprintf("client-%d", c.n), Op: history.Submit, Type: history.Invoke,
			Workspace: c.workspace, Conversation: c.talk, Key: key, Inputs: content, MaxAttempts: c.budget(),
		}
		c.w.rec.add(e)
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		status, v := c.w.call(ctx, c.workspace, http.MethodPost, "/v1/conversations/"+c.talk+"/messages", key, c.body(content))
		cancel()
		switch status {
		case http.StatusAccepted:
			e.Type, e.Task = history.OK, v.ID
			c.w.rec.add(e)
			return v.ID
		case http.StatusUnprocessableEntity:
			e.Type, e.Task, e.Verdict = history.OK, v.TaskID, v.Code
			if v.Code == "idempotency_key_reused" {
				e.Verdict = "key_reused"
				c.w.rec.count("key reused: refused")
			}
			c.w.rec.add(e)
			return ""
		}
		e.Type, e.Note = history.Info, fmt.Sprintf("status %d %s", status, v.Code)
		c.w.rec.add(e)
		c.w.rec.count("submission sent again")
		time.Sleep(200*time.Millisecond + time.Duration(c.rand.Int64N(int64(2*time.Second))))
	}
	return ""
}

// look reads the task; that the API's process reads it from the store is in the history.
func (c *client) look(workspace, task string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	wait := ""
	if c.rand.IntN(2) == 0 {
		wait = "?wait=10s"
	}
	e := history.Event{ID: c.w.rec.ids(1), Proc: fmt.Sprintf("client-%d", c.n), Op: history.Read, Type: history.Invoke, Task: task, Workspace: workspace}
	c.w.rec.add(e)
	status, v := c.w.call(ctx, workspace, http.MethodGet, "/v1/tasks/"+task+wait, "", "")
	c.answered(e, status, v)
}

func (c *client) cancel(workspace, task string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	e := history.Event{ID: c.w.rec.ids(1), Proc: fmt.Sprintf("client-%d", c.n), Op: history.Cancel, Type: history.Invoke, Task: task, Workspace: workspace}
	c.w.rec.add(e)
	status, v := c.w.call(ctx, workspace, http.MethodPost, "/v1/tasks/"+task+"/cancel", "", "")
	c.answered(e, status, v)
}

func (c *client) answered(e history.Event, status int, v view) {
	switch status {
	case http.StatusOK:
		e.Type, e.Status, e.Version = history.OK, v.status(), v.Version
		if v.Reply != nil {
			e.Reply = v.Reply.ID
		}
	case http.StatusNotFound:
		e.Type, e.Verdict = history.OK, "not_found"
		c.w.rec.count("another workspace's task: not found")
	default:
		e.Type, e.Note = history.Info, fmt.Sprintf("status %d %s", status, v.Code)
	}
	c.w.rec.add(e)
}
