package postgres

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// submitArgs are the arguments of storeSQL. Texts are cleaned here; names were checked to be clean.
func submitArgs(items []tasks.Submission, part []int, budgets *reservation) []any {
	type item = tasks.Submission
	return []any{
		uuids(items, part, func(s *item) uuid.UUID { return s.TaskID }),
		texts(items, part, func(s *item) string { return s.Workspace }),
		texts(items, part, func(s *item) string { return s.Conversation }),
		uuids(items, part, func(s *item) uuid.UUID { return s.MessageID }),
		texts(items, part, func(s *item) string { return string(s.Kind) }),
		column(items, part, func(s *item) *uuid.UUID {
			if s.Regenerates == uuid.Nil {
				return nil
			}
			return &s.Regenerates
		}),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Request.Content) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Request.Model) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Request.System) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Request.PromptTemplate) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Request.Document.ID) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Request.Document.Version) }),
		column(items, part, func(s *item) *float64 { return s.Request.Temperature }),
		column(items, part, func(s *item) *int32 {
			if s.Request.MaxOutputTokens == nil {
				return nil
			}
			n := int32(*s.Request.MaxOutputTokens)
			return &n
		}),
		column(items, part, func(s *item) int32 { return int32(s.MaxAttempts) }),
		column(items, part, func(s *item) int32 { return int32(s.MaxInterruptions) }),
		column(items, part, func(s *item) int64 { return s.DeadlineAfter.Microseconds() }),
		texts(items, part, func(s *item) string { return string(s.OnAmbiguous) }),
		texts(items, part, func(s *item) string { return metadata(s.Metadata) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.TraceParent) }),
		column(items, part, func(s *item) int16 { return tasks.Shard(s.Workspace, s.Conversation) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Request.PromptTemplateVersion) }),
		column(items, part, func(s *item) *int64 {
			if budgets.day(s.Workspace) == nil {
				return nil
			}
			return s.Reserve
		}),
		column(items, part, func(s *item) *time.Time { return budgets.day(s.Workspace) }),
		column(items, part, func(s *item) *string {
			if s.Request.Chat == nil {
				return nil
			}
			return optional(s.Request.Chat.Messages)
		}),
		column(items, part, func(s *item) *string {
			if s.Request.Chat == nil {
				return nil
			}
			return optional(s.Request.Chat.Params)
		}),
		column(items, part, func(s *item) int64 { return s.Retention.Microseconds() }),
	}
}

// optional is the text of what may be absent.
func optional[T ~[]byte | ~string](b T) *string {
	if len(b) == 0 {
		return nil
	}
	text := tasks.Clean(string(b))
	return &text
}

// metadata is the JSON of cleaned names and values: jsonb refuses a NUL also when it is escaped.
func metadata(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	clean := make(map[string]string, len(m))
	for name, value := range m {
		clean[tasks.Clean(name)] = tasks.Clean(value)
	}
	b, err := json.Marshal(clean)
	if err != nil {
		return "{}" // not of strings
	}
	return string(b)
}

// submissionSize is the weight of its texts in bytes.
func submissionSize(s *tasks.Submission) int {
	n := len(s.Request.Content) + len(s.Request.System) + len(s.Request.PromptTemplate) + len(s.Request.PromptTemplateVersion)
	if c := s.Request.Chat; c != nil {
		n += len(c.Messages) + len(c.Params)
	}
	for name, value := range s.Metadata {
		n += len(name) + len(value)
	}
	return n
}
