package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

const (
	defaultPage = 100
	writeTime   = 10 * time.Second // for the answer, once a wait has ended
)

// getTask answers a task; with wait, once it has finished or as it stands when the wait ends.
func (s *Server) getTask(c *call) (int, error) {
	id, p := taskID(c.r)
	if p != nil {
		return 0, p
	}
	q, p := params(c.r, "wait")
	if p != nil {
		return 0, p
	}
	var wait time.Duration
	if text, ok := q["wait"]; ok {
		if wait, p = parseWait(text, s.limits.MaxWait); p != nil {
			return 0, p
		}
	}
	if wait > 0 {
		// http.Server's WriteTimeout is for slow clients, and runs while a handler waits. A writer that does not know
		// deadlines has none.
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(wait + s.limits.ReadTimeout + writeTime))
	}
	task, err := s.await(c.r.Context(), c.workspace, id, wait)
	if err != nil {
		return 0, err
	}
	return writeTask(c.w, task)
}

// writeTask keeps the view off the stack of those that wait.
func writeTask(w http.ResponseWriter, task *tasks.Task) (int, error) {
	return writeJSON(w, http.StatusOK, viewTask(*task))
}

// getAttempts answers the ledger of a task.
func (s *Server) getAttempts(c *call) (int, error) {
	id, p := taskID(c.r)
	if p != nil {
		return 0, p
	}
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	ctx, cancel := s.read(c)
	defer cancel()
	attempts, err := s.store.Attempts(ctx, c.workspace, id)
	if err != nil {
		return 0, err
	}
	return writeJSON(c.w, http.StatusOK, viewAttempts(attempts))
}

// listTasks answers a page of the workspace's tasks, newest first.
func (s *Server) listTasks(c *call) (int, error) {
	q, p := params(c.r, "status", "conversation", "limit", "after")
	if p != nil {
		return 0, p
	}
	f := tasks.Filter{Workspace: c.workspace}
	if text, ok := q["status"]; ok {
		if f.Status = tasks.Status(text); !f.Status.Valid() {
			return 0, invalidField("status", "is not one of %v", tasks.Statuses)
		}
	}
	if text, ok := q["conversation"]; ok {
		if p := checkConversation(text); p != nil {
			return 0, p
		}
		f.Conversation = text
	}
	if text, ok := q["after"]; ok {
		var err error
		if f.Before, err = uuid.Parse(text); err != nil || len(text) != 36 {
			return 0, invalidField("after", "is not what a page had in next")
		}
	}
	limit, p := s.pageSize(q)
	if p != nil {
		return 0, p
	}
	f.Limit = limit + 1 // one more tells whether there is a next page
	ctx, cancel := s.read(c)
	defer cancel()
	page, err := s.store.Tasks(ctx, f)
	if err != nil {
		return 0, err
	}
	next := ""
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID.String()
	}
	return writeJSON(c.w, http.StatusOK, viewTasks(page, next))
}

// getConversation answers a page of the chat, oldest first.
func (s *Server) getConversation(c *call) (int, error) {
	conversation := c.r.PathValue("conversation")
	if p := checkConversation(conversation); p != nil {
		return 0, p
	}
	q, p := params(c.r, "limit", "after")
	if p != nil {
		return 0, p
	}
	var after int64
	if text, ok := q["after"]; ok {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return 0, invalidField("after", "is not what a page had in next")
		}
	}
	limit, p := s.pageSize(q)
	if p != nil {
		return 0, p
	}
	ctx, cancel := s.read(c)
	defer cancel()
	page, err := s.store.Conversation(ctx, c.workspace, conversation, after, limit+1)
	if err != nil {
		return 0, err
	}
	next := ""
	if len(page) > limit {
		page = page[:limit]
		next = strconv.FormatInt(page[limit-1].Seq, 10)
	}
	return writeJSON(c.w, http.StatusOK, viewConversation(page, next))
}

// cancelTask refuses every later result of the task.
func (s *Server) cancelTask(c *call) (int, error) {
	id, p := taskID(c.r)
	if p != nil {
		return 0, p
	}
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	ctx, cancel := s.read(c)
	defer cancel()
	task, changed, err := s.store.Cancel(ctx, c.workspace, id)
	if err != nil {
		return 0, err
	}
	if changed {
		s.Wake()
	}
	return writeJSON(c.w, http.StatusOK, viewCancel(task, changed))
}

// taskID reads the id in the path. What is not an id is the id of nothing.
func taskID(r *http.Request) (uuid.UUID, *problem) {
	text := r.PathValue("id")
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.Nil, notFound()
	}
	return id, nil
}

// pageSize cuts a limit that is too large, since next leads on from any page.
func (s *Server) pageSize(q map[string]string) (int, *problem) {
	limit := defaultPage
	if text, ok := q["limit"]; ok {
		n, err := strconv.Atoi(text)
		if n < 1 || err != nil && !errors.Is(err, strconv.ErrRange) { // out of range, n is the largest there is
			return 0, invalidField("limit", "is not a number from 1")
		}
		limit = n
	}
	return min(limit, s.limits.MaxPage), nil
}

// params reads the query: each name at most once, and only those that the route knows.
func params(r *http.Request, known ...string) (map[string]string, *problem) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalidField("query", "is not readable")
	}
	q := make(map[string]string, len(values))
	for _, name := range known {
		if v, ok := values[name]; ok {
			if len(v) != 1 {
				return nil, invalidField(name, "is given more than once")
			}
			q[name] = v[0]
			delete(values, name)
		}
	}
	for name := range values {
		name = tasks.Cut(name, 64)
		return nil, invalidField(name, "is not a parameter of this route")
	}
	return q, nil
}

func noParams(r *http.Request) *problem {
	_, p := params(r)
	return p
}
