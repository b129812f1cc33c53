package tasks

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Key is an API key of a workspace. Its secret is shown once and never stored.
type Key struct {
	ID        uuid.UUID
	Workspace string
	Name      string
	CreatedAt time.Time
	RevokedAt time.Time // zero while the key is good
	Scopes    []Scope   // what it may be used for
	UsedAt    time.Time // when it was last used, to within a minute; zero: never
}

// Scope is a part of what a key may be used for.
type Scope string

const (
	ScopeSubmit Scope = "submit" // messages, regenerate, cancel, chat completions
	ScopeRead   Scope = "read"   // tasks, events, conversations, spend
	ScopeAdmin  Scope = "admin"  // what concerns the workspace's keys and limits; no route of the API needs it yet
)

// Scopes lists every scope.
var Scopes = []Scope{ScopeSubmit, ScopeRead, ScopeAdmin}

// CheckScopes returns the scopes of a new key in the order of Scopes, each once: all of them when none is named. ErrInvalid.
func CheckScopes(named []Scope) ([]Scope, error) {
	if len(named) == 0 {
		return slices.Clone(Scopes), nil
	}
	for _, s := range named {
		if !slices.Contains(Scopes, s) {
			return nil, fmt.Errorf("%w: %q is no scope of a key", ErrInvalid, s)
		}
	}
	return slices.DeleteFunc(slices.Clone(Scopes), func(s Scope) bool { return !slices.Contains(named, s) }), nil
}

// May reports whether the key may be used for s.
func (k Key) May(s Scope) bool { return slices.Contains(k.Scopes, s) }

// Revoked reports whether the key opens nothing any more.
func (k Key) Revoked() bool { return !k.RevokedAt.IsZero() }

// NewKey draws the secret of a new key: fp_ and 256 random bits in hex.
func NewKey() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return "fp_" + hex.EncodeToString(b[:])
}

// HashKey is what is stored and looked up of a secret. A plain SHA-256 is enough, since the secret is random and long.
func HashKey(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }
