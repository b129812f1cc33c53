package tasks

import (
	"context"

	"github.com/google/uuid"
)

// LiveTexts keeps the text of running attempts where another process can read it. It is a courtesy to those who watch: it
// may be lost at any time, is bounded, and is never the reply. Implementations are safe for concurrent use.
type LiveTexts interface {
	// Publish adds pieces; an attempt's come in their order. Those of an older assignment than one that has pieces are
	// dropped, and a newer one hides theirs: a reader never gets tokens of two attempts as one text. A piece with which an
	// attempt has more than MaxLiveText is dropped whole, and so is all that follows it.
	Publish(ctx context.Context, pieces []LivePiece) error

	// Drop forgets the texts of assignments that have ended, and of older ones of their tasks.
	Drop(ctx context.Context, ended []Assignment) error

	// Live reads, for each task, the pieces that the reader has not seen: in the order of cursors, by index within one. An
	// older version than the reader has is not read. When much is asked for, the rest comes when it is asked again.
	Live(ctx context.Context, cursors []LiveCursor) ([]LivePiece, error)
}

// LivePiece is some of the text that an attempt has produced.
type LivePiece struct {
	TaskID  uuid.UUID
	Version int64 // of the assignment
	Attempt int
	Index   int // of its first token within the attempt, from 0
	Tokens  int // how many the piece holds
	Text    string
}

// LiveCursor is how far a reader has come.
type LiveCursor struct {
	TaskID  uuid.UUID
	Version int64 // of the pieces it has; 0: none
	Index   int   // of the next token it wants from that version; a newer version is read from its beginning
}

// MaxLiveText bounds what is kept of one attempt, in bytes.
const MaxLiveText = 256 << 10
