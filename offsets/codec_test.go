package offsets

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The whole of I2 as far as metadata goes: whatever is settled in whatever order, and however little room the metadata
// has, what is read back never covers a record that is not settled.
func TestI2_MetadataNeverCoversAnUnsettledRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{t: NewTracker()}
		start := rapid.Int64Range(0, 1<<40).Draw(t, "start")
		if err := p.register(start, 0); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 200).Draw(t, "records") {
			if err := p.register(rapid.SampledFrom([]int64{0, 0, 1, 300}).Draw(t, "gap"), 0); err != nil {
				t.Fatal(err)
			}
		}
		for i := range p.m.records {
			if rapid.Bool().Draw(t, "settled") {
				if err := p.done(i); err != nil {
					t.Fatal(err)
				}
			}
		}
		position, truth := p.t.Position().Offset, p.t.Ahead(nil)
		limit := rapid.IntRange(0, 300).Draw(t, "limit")
		metadata := EncodeRuns(position, truth, limit)
		if len(metadata) > limit {
			t.Fatalf("%d bytes, limit %d", len(metadata), limit)
		}
		runs, err := DecodeRuns(position, metadata)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(runs, truth[:len(runs)]) {
			t.Fatalf("read back %v of %v: the farthest are dropped first", runs, truth)
		}
		for _, r := range p.m.records {
			if !r.settled && Contains(runs, r.offset) {
				t.Fatalf("offset %d is not settled, and the metadata says it is", r.offset)
			}
		}
		if len(truth) > 0 && len(runs) < len(truth) && len(metadata)+30 < limit {
			t.Fatalf("%d runs dropped with %d of %d bytes used", len(truth)-len(runs), len(metadata), limit)
		}
	})
}

func TestEncodeIsStable(t *testing.T) {
	// Written into the groups of running systems: a change here needs a new version mark.
	const golden = "fp1:AAAEAq0C6AfN9aF9"
	runs := []Run{{100, 101}, {105, 108}, {409, 1410}}
	if got := EncodeRuns(100, runs, 4096); got != golden {
		t.Errorf("EncodeRuns = %q, want %q", got, golden)
	}
	if got, err := DecodeRuns(100, golden); err != nil || !slices.Equal(got, runs) {
		t.Errorf("DecodeRuns = %v, %v", got, err)
	}
}

func TestEncodeLeavesOutWhatIsNotARun(t *testing.T) {
	for name, tc := range map[string]struct {
		position int64
		in, want []Run
	}{
		"none":                {5, nil, nil},
		"empty and backwards": {5, []Run{{7, 7}, {9, 8}}, nil},
		"before the position": {5, []Run{{3, 5}, {4, 6}, {8, 9}}, []Run{{8, 9}}},
		"out of order":        {5, []Run{{10, 12}, {7, 8}, {14, 15}}, []Run{{10, 12}, {14, 15}}},
		"overlapping":         {5, []Run{{7, 10}, {9, 12}, {14, 15}}, []Run{{7, 10}, {14, 15}}},
		"touching":            {5, []Run{{7, 10}, {10, 12}, {12, 13}}, []Run{{7, 13}}},
		"at the position":     {5, []Run{{5, 6}}, []Run{{5, 6}}},
		"the largest":         {0, []Run{{math.MaxInt64 - 1, math.MaxInt64}}, []Run{{math.MaxInt64 - 1, math.MaxInt64}}},
		"no position":         {-1, []Run{{7, 8}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := EncodeRuns(tc.position, tc.in, 4096)
			if (metadata == "") != (len(tc.want) == 0) {
				t.Errorf("metadata %q", metadata)
			}
			got, err := DecodeRuns(tc.position, metadata)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("read back %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := EncodeRuns(100, []Run{{103, 110}, {200, 300}}, 4096)
	// A text whose checksum is right and whose content cannot be.
	forge := func(position int64, varints ...uint64) string { return forged(position, varints...) }
	for name, tc := range map[string]struct {
		position int64
		metadata string
		want     error
	}{
		"member id":         {100, "kgo-6b8a1c52-5a42-4c0e-9f0e-8a3d", ErrForeign},
		"another version":   {100, "fp2:" + good[len(mark):], ErrForeign},
		"half a mark":       {100, "fp1", ErrForeign},
		"binary":            {100, "\xff\xfe\x00", ErrForeign},
		"mark alone":        {100, mark, ErrCorrupt},
		"cut short":         {100, good[:len(good)-1], ErrCorrupt},
		"longer":            {100, good + "A", ErrCorrupt},
		"altered":           {100, strings.Replace(good, good[4:5], string(good[4]+1), 1), ErrCorrupt},
		"not base64":        {100, mark + "AB+/AAAA", ErrCorrupt},
		"line break":        {100, good[:8] + "\n" + good[8:], ErrCorrupt},
		"another position":  {101, good, ErrCorrupt}, // MirrorMaker translates offsets and copies metadata
		"no position":       {-1, good, ErrCorrupt},
		"too long":          {100, mark + strings.Repeat("A", maxMetadata), ErrCorrupt},
		"half a run":        {100, forge(100, 3), ErrCorrupt},
		"touching runs":     {100, forge(100, 3, 4, 0, 4), ErrCorrupt},
		"beyond the end":    {100, forge(100, math.MaxInt64-50, 0), ErrCorrupt},
		"length overflows":  {100, forge(100, 1, math.MaxInt64-101), ErrCorrupt},
		"length wraps":      {100, forge(100, 1, math.MaxUint64), ErrCorrupt},
		"second run beyond": {math.MaxInt64 - 10, forge(math.MaxInt64-10, 1, 1, 7, 0), ErrCorrupt},
		"varint too long":   {100, forgedBytes(100, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			runs, err := DecodeRuns(tc.position, tc.metadata)
			if !errors.Is(err, tc.want) || runs != nil {
				t.Errorf("DecodeRuns = %v, %v, want %v", runs, err, tc.want)
			}
		})
	}
	if runs, err := DecodeRuns(100, ""); runs != nil || err != nil {
		t.Errorf("nothing said: %v, %v", runs, err)
	}
}

// One record that takes long while 50,000 others pass it costs a few bytes; every second record of 100,000 settled does
// not fit, and the nearest are kept.
func TestEncodeSizes(t *testing.T) {
	if got := EncodeRuns(1000, []Run{{1001, 51001}}, 4096); len(got) > 20 {
		t.Errorf("one run takes %d bytes", len(got))
	}
	var alternating []Run
	for o := int64(1); o < 100_000; o += 2 {
		alternating = append(alternating, Run{o, o + 1})
	}
	metadata := EncodeRuns(0, alternating, 4096)
	if len(metadata) > 4096 || len(metadata) < 4090 {
		t.Errorf("%d bytes", len(metadata))
	}
	runs, err := DecodeRuns(0, metadata)
	if err != nil || len(runs) < 1500 || !slices.Equal(runs, alternating[:len(runs)]) {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	// A run that does not fit ends it, also where a shorter one behind it would fit.
	long := []Run{{1, 2}, {202, 402}, {403, 404}}
	if runs, err := DecodeRuns(0, EncodeRuns(0, long, 16)); err != nil || !slices.Equal(runs, long[:1]) {
		t.Errorf("kept %v, %v, want the nearest run alone", runs, err)
	}
	t.Logf("4096 bytes hold %d single records", len(runs))
}
