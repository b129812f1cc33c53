package tasks

import (
	"time"

	"github.com/google/uuid"
)

// Binding is what an idempotency key stands for until it is forgotten.
type Binding struct {
	TaskID      uuid.UUID
	Fingerprint [32]byte
	ExpiresAt   time.Time // when the key is forgotten
	// PromptTemplateVersion is what the task was accepted with, so that a request which leaves the version open can be
	// compared by the version that was current then.
	PromptTemplateVersion string
}
