package offsets

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
)

// mark opens every metadata text of ours; its number is the version of what follows.
const mark = "fp1:"

// maxMetadata bounds what DecodeRuns looks at, in bytes. Brokers allow 4096 unless configured otherwise.
const maxMetadata = 1 << 20

var (
	// ErrForeign: the metadata is not ours. Expected: other tools write theirs, and franz-go the member id.
	ErrForeign = errors.New("commit metadata is not fencepost's")
	// ErrCorrupt: the metadata bears our mark and cannot be relied on: cut short, altered, or written for another position.
	ErrCorrupt = errors.New("commit metadata is corrupt")
)

// text is strict, so that one payload has one text. It is ASCII because a broker counts UTF-16 units and replaces what
// is not UTF-8.
var text = base64.RawURLEncoding.Strict()

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumSize = 4

// EncodeRuns writes runs as ASCII text for the metadata of a commit of position, at most limit bytes long. What does not
// fit is dropped from the far end: it would be read again last. "" when nothing is left to say. runs are as Tracker.Ahead
// gives them; one that is out of order, empty or before position is left out.
//
// The text is the mark, then in base64: for each run the distance from the end of the one before (from position for the
// first) and its length - 1, as varints; then a checksum that covers position too. A tool that carries metadata over to
// another offset, as MirrorMaker does between clusters, would otherwise declare unread records settled.
func EncodeRuns(position int64, runs []Run, limit int) string {
	if position < 0 {
		return ""
	}
	room := text.DecodedLen(max(0, min(limit, maxMetadata)-len(mark))) - checksumSize
	var payload []byte
	end := position
	for i := 0; i < len(runs); {
		r := runs[i]
		for i++; i < len(runs) && runs[i].From == r.To && runs[i].To > r.To; i++ {
			r.To = runs[i].To
		}
		if r.From < end || r.To <= r.From || (r.From == end && end > position) {
			continue
		}
		before := len(payload)
		payload = binary.AppendUvarint(payload, uint64(r.From-end))
		payload = binary.AppendUvarint(payload, uint64(r.To-r.From-1))
		if len(payload) > room {
			payload = payload[:before]
			break
		}
		end = r.To
	}
	if len(payload) == 0 {
		return ""
	}
	payload = binary.BigEndian.AppendUint32(payload, checksum(position, payload))
	return mark + text.EncodeToString(payload)
}

// DecodeRuns reads what EncodeRuns wrote for position. "" says nothing: nil and no error. ErrForeign, ErrCorrupt.
func DecodeRuns(position int64, metadata string) ([]Run, error) {
	if metadata == "" {
		return nil, nil
	}
	body, ours := strings.CutPrefix(metadata, mark)
	if !ours {
		return nil, ErrForeign
	}
	if position < 0 || len(metadata) > maxMetadata || strings.ContainsAny(body, "\r\n") {
		return nil, ErrCorrupt
	}
	payload, err := text.DecodeString(body)
	if err != nil || len(payload) <= checksumSize {
		return nil, ErrCorrupt
	}
	payload, sum := payload[:len(payload)-checksumSize], payload[len(payload)-checksumSize:]
	if binary.BigEndian.Uint32(sum) != checksum(position, payload) {
		return nil, ErrCorrupt
	}
	runs := make([]Run, 0, len(payload)/2)
	for end := position; len(payload) > 0; {
		var gap, length int64
		var ok bool
		if gap, payload, ok = uvarint(payload); !ok {
			return nil, ErrCorrupt
		}
		if length, payload, ok = uvarint(payload); !ok {
			return nil, ErrCorrupt
		}
		// Runs that touch would have been one. An end beyond the largest offset would wrap around; the right side of the
		// comparison cannot, since end and gap are not negative.
		if (gap == 0 && len(runs) > 0) || length >= math.MaxInt64-end-gap {
			return nil, ErrCorrupt
		}
		r := Run{From: end + gap, To: end + gap + length + 1}
		runs = append(runs, r)
		end = r.To
	}
	return runs, nil
}

func uvarint(b []byte) (v int64, rest []byte, ok bool) {
	u, n := binary.Uvarint(b)
	if n <= 0 || u > math.MaxInt64 {
		return 0, nil, false
	}
	return int64(u), b[n:], true
}

func checksum(position int64, payload []byte) uint32 {
	var p [8]byte
	binary.BigEndian.PutUint64(p[:], uint64(position))
	return crc32.Update(crc32.Checksum(p[:], castagnoli), castagnoli, payload)
}
