package lag

import (
	"testing"
	"time"
)

var begin = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// reportAt is one of a partition that has an owner and an old record at its position.
func reportAt(second int, committed, end Offset) Report {
	r := Report{At: begin.Add(time.Duration(second) * time.Second), TopicID: [16]byte{1}, State: "Stable"}
	p := unread(0)
	p.Start, p.Committed, p.Position, p.End, p.Lag, p.LagSeconds, p.SettledAhead, p.Member = 0, committed, committed, end, end-committed, 600, 0, "m"
	if p.Lag == 0 {
		p.LagSeconds = 0
	}
	r.Partitions = append(r.Partitions, p)
	return r
}

func TestHistoryKeepsAnHourAndJudgesByTheWindow(t *testing.T) {
	h := NewHistory(Rules{}, 10*time.Second, time.Hour)
	for second := 0; second <= 2*3600; second += 5 {
		r := h.Add(reportAt(second, Offset(second), Offset(second)+100))
		if second >= 60 && r.Partitions[0].Status != Warn {
			t.Fatalf("after %d s: %s", second, r.Partitions[0].Status)
		}
		if second > 0 && r.Partitions[0].Rate != 1 {
			t.Fatalf("after %d s: %v a second", second, r.Partitions[0].Rate)
		}
	}
	kept := h.Samples(0)
	if first, last := kept[0].At, kept[len(kept)-1].At; last.Sub(first) != time.Hour || len(kept) != 361 || last != begin.Add(2*time.Hour) {
		t.Errorf("%d samples from %v to %v", len(kept), first, last)
	}
	if kept[300].Status != Warn {
		t.Errorf("kept as %s", kept[300].Status)
	}
	// What is long past says nothing any more.
	r := h.Add(reportAt(2*3600+600, 2*3600, 2*3600+100))
	if got := r.Partitions[0].Status; got != Unknown {
		t.Errorf("after ten minutes without a sample: %s", got)
	}
	latest, ok := h.Latest()
	if !ok || latest.At != r.At || latest.Partitions[0].Status != Unknown {
		t.Errorf("latest %+v", latest)
	}
}

func TestHistoryBeginsAnewWithTheTopic(t *testing.T) {
	h := NewHistory(Rules{}, 0, 0)
	h.Add(reportAt(0, 90, 100))
	if r := h.Add(reportAt(1, 10, 100)); r.Partitions[0].Status != Rewind {
		t.Fatalf("the same topic: %s", r.Partitions[0].Status)
	}
	r := reportAt(2, 5, 100)
	r.TopicID = [16]byte{2}
	if r = h.Add(r); r.Partitions[0].Status == Rewind || len(h.Samples(0)) != 1 {
		t.Errorf("another topic: %s, %d samples", r.Partitions[0].Status, len(h.Samples(0)))
	}
	r.Partitions[0].Partition = 7
	h.Add(r)
	if all := h.All(); len(all) != 1 || len(all[7]) != 1 {
		t.Errorf("samples %v", all)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := NewHistory(Rules{}, 0, 24*time.Hour)
	const partitions = 4000
	for second := range 55 {
		r := reportAt(second, 5, 10)
		for n := range int32(partitions - 1) {
			p := r.Partitions[0]
			p.Partition = n + 1
			r.Partitions = append(r.Partitions, p)
		}
		h.Add(r)
	}
	if n := len(h.Samples(17)); n != maxSamples/partitions {
		t.Errorf("%d samples of each of %d partitions", n, partitions)
	}
}

// TestHistorySkipsWhatCouldNotBeRead: an unread sample is no movement.
func TestHistorySkipsWhatCouldNotBeRead(t *testing.T) {
	h := NewHistory(Rules{}, 0, 0)
	h.Add(reportAt(0, 10, 100))
	bad := reportAt(30, 0, 0)
	bad.Partitions[0] = unread(0)
	bad.Partitions[0].Status = Unknown
	if r := h.Add(bad); r.Partitions[0].Status != Unknown || r.Complete {
		t.Errorf("%+v", r)
	}
	if r := h.Add(reportAt(61, 10, 100)); r.Partitions[0].Status != Stall {
		t.Errorf("%s", r.Partitions[0].Status)
	}
	if s := h.Samples(0); len(s) != 3 || s[1].Lag != None || s[1].Status != Unknown {
		t.Errorf("samples %+v", s)
	}
}
