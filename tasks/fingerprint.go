package tasks

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// ComputeFingerprint digests every input of a submission that changes its answer (I6). Two submissions under one key are
// the same work exactly when their fingerprints are equal. Each field is written with its length, so that no two
// different inputs share an encoding; absent and empty optional numbers differ. Texts are compared in their normal form
// (Normal); the conversation, which is a place, byte by byte, and Chat as it is given: whoever fills it in gives the
// canonical JSON. Metadata is not an input of the answer.
func (s Submission) ComputeFingerprint() [32]byte {
	b := make([]byte, 0, 512+len(s.Request.Content)+len(s.Request.System))
	b = field(b, "fencepost.v1")
	b = field(b, s.Operation)
	b = field(b, s.Conversation)
	b = field(b, string(s.Kind))
	b = field(b, s.Regenerates.String())
	b = field(b, Normal(s.Request.Content))
	b = field(b, Normal(s.Request.Model))
	b = field(b, Normal(s.Request.System))
	b = field(b, Normal(s.Request.PromptTemplate))
	b = field(b, Normal(s.Request.Document.ID))
	b = field(b, Normal(s.Request.Document.Version))
	temperature, maxOutputTokens := "-", "-"
	if t := s.Request.Temperature; t != nil {
		temperature = strconv.FormatFloat(*t, 'g', -1, 64)
	}
	if n := s.Request.MaxOutputTokens; n != nil {
		maxOutputTokens = strconv.Itoa(*n)
	}
	b = field(b, temperature)
	b = field(b, maxOutputTokens)
	b = field(b, string(s.OnAmbiguous))
	if c := s.Request.Chat; c != nil {
		b = field(b, "chat")
		b = field(b, string(c.Messages))
		b = field(b, string(c.Params))
	}
	// Written only where there is one: what was submitted before templates had versions keeps its fingerprint.
	if v := s.Request.PromptTemplateVersion; v != "" {
		b = field(b, v)
	}
	return sha256.Sum256(b)
}

func field(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
}
