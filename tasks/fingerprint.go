package tasks

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"
)

// Fingerprint digests every input of a submission that changes its answer (I6). Two submissions under one key are the
// same work exactly when their fingerprints are equal. Each field is written with its length, so that no two different
// inputs share an encoding; absent and empty optional numbers differ. Metadata is not an input of the answer.
func (s Submission) ComputeFingerprint() [32]byte {
	h := sha256.New()
	field(h, "fencepost.v1")
	field(h, s.Operation)
	field(h, s.Conversation)
	field(h, string(s.Kind))
	field(h, s.Regenerates.String())
	field(h, s.Request.Content)
	field(h, s.Request.Model)
	field(h, s.Request.System)
	field(h, s.Request.PromptTemplate)
	field(h, s.Request.Document.ID)
	field(h, s.Request.Document.Version)
	if t := s.Request.Temperature; t != nil {
		field(h, strconv.FormatFloat(*t, 'g', -1, 64))
	} else {
		field(h, "-")
	}
	if n := s.Request.MaxOutputTokens; n != nil {
		field(h, strconv.Itoa(*n))
	} else {
		field(h, "-")
	}
	field(h, string(s.OnAmbiguous))
	return [32]byte(h.Sum(nil))
}

func field(h hash.Hash, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}
