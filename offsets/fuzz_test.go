package offsets

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// FuzzTracker reads its input as operations on a tracker and its model: two bytes each, what and which.
func FuzzTracker(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 1, 1, 0})                                                        // two records, settled backwards
	f.Add([]byte{0, 0, 0, 3, 0, 250, 1, 2, 1, 1, 1, 0})                                          // holes
	f.Add([]byte{2, 255, 1, 200, 3, 40, 2, 255, 3, 0, 1, 0})                                     // the ring grows, then runs round
	f.Add([]byte{0, 0, 1, 0, 1, 0, 1, 0, 2, 90, 1, 0, 3, 0, 4, 0, 4, 7})                         // done again, stale handles, offsets again
	f.Add([]byte{5, 3, 0, 0, 0, 9, 1, 1, 2, 20, 1, 0})                                           // runs of a former assignment
	f.Add([]byte{2, 63, 3, 0, 2, 63, 3, 0, 2, 63, 3, 60, 1, 5, 2, 3, 3, 90, 3, 120, 3, 1, 1, 1}) // exactly full
	f.Fuzz(func(t *testing.T, ops []byte) {
		ops = ops[:min(len(ops), 400)] // the model looks at everything, every time
		p := &pair{t: NewTracker()}
		for ; len(ops) >= 2; ops = ops[2:] {
			n := int(ops[1])
			var err error
			switch ops[0] % 6 {
			case 0:
				err = p.register(int64(n%16), int32(n))
			case 1:
				if len(p.m.records) > 0 {
					err = p.done(n % len(p.m.records))
				}
			case 2:
				for range n {
					err = errors.Join(err, p.register(0, int32(n)))
				}
			case 3: // from some record on, the next 32
				for i := n; i < min(n+32, len(p.m.records)); i++ {
					err = errors.Join(err, p.done(i))
				}
			case 4:
				err = p.registerAgain(int64(n))
			case 5:
				if len(p.m.records) == 0 {
					from := int64(n)
					p.m.resumed = []Run{{from, from + 5}, {from + 9, from + 10}}
					p.t.Resume(p.m.resumed)
				}
			}
			if err = errors.Join(err, p.check()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzDecodeRuns: whatever stands in a commit's metadata, it is refused or says something that can be true.
func FuzzDecodeRuns(f *testing.F) {
	f.Add(int64(0), "")
	f.Add(int64(7), "consumer-1-aaaa")
	f.Add(int64(100), EncodeRuns(100, []Run{{103, 110}, {200, 300}}, 4096))
	f.Add(int64(100), forged(100, 1, 1<<62, 1, 1<<62))
	f.Add(int64(-1), "fp1:AAAA")
	f.Add(int64(1), "fp1:AAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, position int64, metadata string) {
		inspect(t, position, metadata)
		// The checksum stands before everything behind it, so the input is tried as a payload with a right one too.
		inspect(t, position, forgedBytes(position, metadata))
	})
}

func inspect(t *testing.T, position int64, metadata string) {
	runs, err := DecodeRuns(position, metadata)
	if err != nil {
		if runs != nil || (!errors.Is(err, ErrForeign) && !errors.Is(err, ErrCorrupt)) {
			t.Fatalf("runs %v, error %v", runs, err)
		}
		return
	}
	end := position - 1
	for _, r := range runs {
		if r.From <= end || r.To <= r.From {
			t.Fatalf("position %d: runs %v are not ascending and apart", position, runs)
		}
		end = r.To
	}
	if len(runs) > len(metadata) {
		t.Fatalf("%d runs out of %d bytes", len(runs), len(metadata))
	}
}

// FuzzRoundTrip: what is read back is the beginning of what was written.
func FuzzRoundTrip(f *testing.F) {
	f.Add(int64(0), []byte{1, 1, 1, 1}, 4096)
	f.Add(int64(1<<40), []byte{0, 255, 255, 0, 3, 7}, 20)
	f.Add(int64(9), []byte{9, 9, 9, 9, 9, 9, 9, 9}, 0)
	f.Add(int64(9), []byte{0, 1, 200, 9, 255, 255, 1, 1}, 15)
	f.Fuzz(func(t *testing.T, position int64, spans []byte, limit int) {
		if position < 0 || position > 1<<60 {
			return
		}
		var runs []Run
		end := position
		for ; len(spans) >= 2; spans = spans[2:] {
			gap := int64(spans[0]) * int64(spans[0])
			if len(runs) > 0 {
				gap++
			}
			r := Run{From: end + gap, To: end + gap + 1 + int64(spans[1])<<(spans[1]%32)}
			runs = append(runs, r)
			end = r.To
		}
		metadata := EncodeRuns(position, runs, limit)
		if len(metadata) > max(limit, 0) {
			t.Fatalf("%d bytes, limit %d", len(metadata), limit)
		}
		for _, b := range []byte(metadata) {
			if b < ' ' || b > '~' {
				t.Fatalf("metadata %q is not printable ASCII", metadata)
			}
		}
		got, err := DecodeRuns(position, metadata)
		if err != nil || !slices.Equal(got, runs[:min(len(got), len(runs))]) {
			t.Fatalf("wrote %v, read %v, %v", runs, got, err)
		}
		if limit >= 64*len(runs)+64 && len(got) != len(runs) {
			t.Fatalf("dropped %d runs with room left", len(runs)-len(got))
		}
	})
}

// forged is a text whose checksum is right, whatever it says.
func forged(position int64, varints ...uint64) string {
	var payload []byte
	for _, v := range varints {
		payload = binary.AppendUvarint(payload, v)
	}
	return forgedBytes(position, string(payload))
}

func forgedBytes(position int64, payload string) string {
	sum := binary.BigEndian.AppendUint32([]byte(payload), checksum(position, []byte(payload)))
	return mark + text.EncodeToString(sum)
}
