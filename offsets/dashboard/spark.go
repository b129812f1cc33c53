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
	Text          string   // the same in words
}

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
	highest := int64(Unknown)
	for _, v := range values {
		highest = max(highest, v)
	}
	if highest == Unknown {
		out.Text = "no samples of the last hour"
		return out
	}
	out.Text = fmt.Sprintf("last hour: at most %s", number(highest))
	point := func(x float64, v int64) string {
		y := float64(height-1) - float64(v)*float64(height-2)/math.Max(1, float64(highest))
		return strconv.FormatFloat(x, 'f', 1, 64) + "," + strconv.FormatFloat(y, 'f', 1, 64)
	}
	// A pixel of room on each side, so that the line's own width is within the picture.
	step := float64(width-2) / (columns - 1)
	var run []string
	for i, v := range append(values, Unknown) {
		if v != Unknown {
			run = append(run, point(1+float64(i)*step, v))
			continue
		}
		if len(run) == 1 { // between two gaps: a line of no length would not be seen
			run = append(run, point(float64(i-1)*step, values[i-1]))
		}
		if len(run) > 0 {
			out.Paths = append(out.Paths, strings.Join(run, " "))
		}
		run = nil
	}
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
