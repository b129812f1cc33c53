package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// historyShown is the time that a line spans, and columns the moments of it that are drawn.
	historyShown = time.Hour
	columns      = 60
)

// line is a drawing of a history: the highest value of each column, over the last hour. It has gaps where there is no
// sample, since a line across them would claim something.
type line struct {
	Width, Height int
	Paths         []string // points of polylines, each without a gap
	Dots          []dot    // samples between two gaps
	Text          string   // the same in words
	Max           string
}

type dot struct{ X, Y string }

// draw draws points, oldest first, as of now.
func draw(points []Point, now time.Time, width, height int) line {
	column := func(at time.Time) int {
		return columns - 1 - int(now.Sub(at)*columns/historyShown)
	}
	values := make([]int64, columns)
	for i := range values {
		values[i] = Unknown
	}
	for _, p := range points {
		if c := column(p.At); c >= 0 && c < columns && p.Lag >= 0 {
			values[c] = max(values[c], p.Lag)
		}
	}
	out := line{Width: width, Height: height}
	highest, first, last := int64(0), -1, -1
	for i, v := range values {
		if v == Unknown {
			continue
		}
		if first < 0 {
			first = i
		}
		last, highest = i, max(highest, v)
	}
	if first < 0 {
		out.Text = "no samples of the last hour"
		return out
	}
	out.Max = number(highest)
	out.Text = fmt.Sprintf("last hour: from %s to %s, at most %s", number(values[first]), number(values[last]), number(highest))
	// Half a pixel of room, so that the line's own width is within the picture.
	at := func(i int, v int64) dot {
		x := 1 + float64(i)*float64(width-2)/(columns-1)
		y := float64(height-1) - float64(v)*float64(height-2)/math.Max(1, float64(highest))
		return dot{X: strconv.FormatFloat(x, 'f', 1, 64), Y: strconv.FormatFloat(y, 'f', 1, 64)}
	}
	var run []dot
	end := func() {
		switch len(run) {
		case 0:
		case 1:
			out.Dots = append(out.Dots, run[0])
		default:
			words := make([]string, len(run))
			for i, d := range run {
				words[i] = d.X + "," + d.Y
			}
			out.Paths = append(out.Paths, strings.Join(words, " "))
		}
		run = nil
	}
	for i, v := range values {
		if v == Unknown {
			end()
			continue
		}
		run = append(run, at(i, v))
	}
	end()
	return out
}

// totals is the lag of all partitions together at each moment of which every partition has a sample.
func totals(partitions []Partition, now time.Time) []Point {
	sums := make([]Point, columns)
	counts := make([]int, columns)
	for _, p := range partitions {
		highest := make(map[int]int64, columns)
		for _, s := range p.History {
			c := columns - 1 - int(now.Sub(s.At)*columns/historyShown)
			if c < 0 || c >= columns || s.Lag < 0 {
				continue
			}
			highest[c] = max(highest[c], s.Lag)
		}
		for c, v := range highest {
			sums[c].Lag += v
			counts[c]++
		}
	}
	var out []Point
	for c := range sums {
		if counts[c] == len(partitions) && len(partitions) > 0 {
			sums[c].At = now.Add(-historyShown * time.Duration(columns-1-c) / columns)
			out = append(out, sums[c])
		}
	}
	return out
}
