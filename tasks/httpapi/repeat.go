package httpapi

import (
	"context"
	"errors"
	"strings"

	"github.com/fencepost/fencepost/tasks"
)

// Bindings tells what an idempotency key is bound to. tasks.ErrNotFound: nothing.
type Bindings interface {
	Binding(ctx context.Context, workspace, operation, key string) (tasks.Binding, error)
}

// repeats looks whether a request that was going to be refused is the repeat of one that was accepted before the operator
// changed the templates. A message that leaves the version of its template open means the one that was current when it was
// sent first, and a client that lost the answer to it must get its task and no error.
func (s *Server) repeats(c *call, asked tasks.Submission) (tasks.Submitted, bool) {
	if asked.Request.PromptTemplate == "" || s.bindings == nil {
		return tasks.Submitted{}, false
	}
	ctx, cancel := s.read(c)
	defer cancel()
	bound, err := s.bindings.Binding(ctx, asked.Workspace, asked.Operation, asked.Key)
	if err != nil {
		// The refusal stands: it has bound nothing, and the repeat may be repeated.
		if !errors.Is(err, tasks.ErrNotFound) {
			s.errors.log.Warn("what a key is bound to could not be read", "error", err)
		}
		return tasks.Submitted{}, false
	}
	text := asked.Request.PromptTemplate
	name, version, pinned := strings.Cut(text, "@")
	if !pinned {
		version = bound.PromptTemplateVersion
	}
	for _, as := range [...][2]string{{name, version}, {text, ""}} { // the second as a server without templates took it
		asked.Request.PromptTemplate, asked.Request.PromptTemplateVersion = as[0], as[1]
		if asked.ComputeFingerprint() == bound.Fingerprint {
			return tasks.Submitted{TaskID: bound.TaskID, Replayed: true, ExpiresAt: bound.ExpiresAt}, true
		}
	}
	return tasks.Submitted{}, false
}
