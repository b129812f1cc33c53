package storetest

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// bindings is what a store has beside tasks.Store for the submission API.
type bindings interface {
	Binding(ctx context.Context, workspace, operation, key string) (tasks.Binding, error)
}

func (k *kit) binding(workspace, operation, key string) (tasks.Binding, error) {
	k.Helper()
	store, ok := k.Store.(bindings)
	if !ok {
		k.Fatalf("%T has no Binding", k.Store)
	}
	return store.Binding(k.ctx, workspace, operation, key)
}

var bindingTests = []test{
	{"I6_what_a_key_is_bound_to_until_it_is_forgotten", func(k *kit) {
		s := k.submit(func(s *tasks.Submission) {
			s.Request.PromptTemplate, s.Request.PromptTemplateVersion = "support", "3"
		})
		plain := k.submit()
		for _, of := range []struct {
			tasks.Submission
			version string
		}{{s, "3"}, {plain, ""}} {
			got, err := k.binding(workspace, tasks.OperationMessage, of.Key)
			if err != nil {
				k.Fatalf("binding: %v", err)
			}
			k.within("what is left of a key", got.ExpiresAt.Sub(k.read(of.Submission).AcceptedAt), of.Retention)
			got.ExpiresAt = time.Time{}
			if want := (tasks.Binding{TaskID: of.TaskID, Fingerprint: of.Fingerprint, PromptTemplateVersion: of.version}); got != want {
				k.Errorf("bound to %+v, want %+v", got, want)
			}
		}
		k.Advance(s.Retention)
		_, err := k.binding(workspace, tasks.OperationMessage, s.Key)
		k.wantError(err, tasks.ErrNotFound)
	}},
	{"I8_a_key_is_bound_in_its_own_workspace_and_operation_only", func(k *kit) {
		s := k.submit()
		for _, of := range [][3]string{
			{"other", tasks.OperationMessage, s.Key}, {workspace + "\x00", tasks.OperationMessage, s.Key}, {workspace, "other", s.Key},
			{workspace, tasks.OperationMessage, s.Key + "x"}, {workspace, tasks.OperationMessage, s.Key + "\x00"},
		} {
			_, err := k.binding(of[0], of[1], of[2])
			k.wantError(err, tasks.ErrNotFound)
		}
	}},
}
