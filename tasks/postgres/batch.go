package postgres

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/tasks"
)

const (
	partItems  = 1000    // of one statement
	partBytes  = 8 << 20 // of texts in one statement; Postgres refuses a message of 1 GiB
	collisions = 5       // how often a statement is repeated that the server undid
	// While several items wait for rows that somebody holds, each holds up the others: then a wait is short, and ends with
	// the halves of the batch waiting on their own.
	sharedRowWait = 250 * time.Millisecond
)

// parts cuts items so that one statement stays within partItems and partBytes. size is an item's weight in bytes.
func parts(items []int, size func(item int) int) [][]int {
	var all [][]int
	from, bytes := 0, 0
	for at, item := range items {
		n := size(item)
		if at > from && (at-from == partItems || bytes+n > partBytes) {
			all = append(all, items[from:at])
			from, bytes = at, 0
		}
		bytes += n
	}
	if from < len(items) {
		all = append(all, items[from:])
	}
	return all
}

// isolate runs do on a part, and, when it fails for a reason that ofOne says lies with one item, on its halves, until the
// item stands alone. alone then says what becomes of the item: nil when its failure is its own outcome. When it is the
// call's, the other items are still tried first.
func isolate(ctx context.Context, part []int, do func(part []int) error, ofOne func(error) bool, alone func(item int, err error) error) error {
	err := repeat(ctx, func() error { return do(part) })
	switch {
	case err == nil || !ofOne(err):
		return err
	case len(part) == 1:
		return alone(part[0], err)
	}
	half := len(part) / 2
	first := isolate(ctx, part[:half], do, ofOne, alone)
	if first != nil && !ofOne(first) {
		return first
	}
	if err := isolate(ctx, part[half:], do, ofOne, alone); err != nil {
		return err
	}
	return first
}

// repeat runs do again when the server undid it because of a collision.
func repeat(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil || n == collisions || !collided(err) {
			return err
		}
		if !wait(ctx, time.Duration(rand.Int64N(int64(10*time.Millisecond)<<n))) {
			return err
		}
	}
}

// judged is a statement of the shape that the package comment describes, over items that are named by their index.
type judged[T any] struct {
	pool *pgxpool.Pool
	free string        // the statement that skips rows which somebody holds
	held string        // the same, waiting for them
	lock string        // where it is not empty: run before held, with its first two arguments, to wait in its stead
	wait time.Duration // bounds the waiting of all items together
	args func(part []int) []any
	// scan reads a row: the item's place in the part, from 1, and its result.
	scan func(rows pgx.Rows) (place int, result T, err error)
	// alone says what becomes of an item that failed by itself.
	alone func(item int, err error) error
	// size is an item's weight in bytes; nil: small.
	size func(item int) int
}

// run sets out[item] for every item whose row exists and leaves the others alone.
func (j judged[T]) run(ctx context.Context, items []int, out []T) error {
	if j.size == nil {
		j.size = func(int) int { return 0 }
	}
	done := make([]bool, len(out))
	alone := func(item int, err error) error {
		done[item] = true
		return j.alone(item, err)
	}
	for _, part := range parts(items, j.size) {
		err := isolate(ctx, part, func(part []int) error {
			rows, err := j.pool.Query(ctx, j.free, j.args(part)...)
			if err != nil {
				return err
			}
			return j.read(rows, part, out, done)
		}, badData, alone)
		if err != nil {
			return err
		}
	}
	var rest []int // held by somebody, or not there
	for _, item := range items {
		if !done[item] {
			rest = append(rest, item)
		}
	}
	// However many rows are held, what was decided above is told before the caller's patience ends.
	until := time.Now().Add(j.wait)
	for _, part := range parts(rest, j.size) {
		err := isolate(ctx, part, func(part []int) error { return j.waiting(ctx, part, until, out, done) },
			func(err error) bool { return badData(err) || lockTimeout(err) }, alone)
		if err != nil {
			return err
		}
	}
	return nil
}

func (j judged[T]) waiting(ctx context.Context, part []int, until time.Time, out []T, done []bool) error {
	return pgx.BeginFunc(ctx, j.pool, func(tx pgx.Tx) error {
		wait := time.Until(until)
		if len(part) > 1 {
			wait = min(wait, sharedRowWait)
		}
		wait = max(wait, time.Millisecond) // 0 would wait for ever
		if _, err := tx.Exec(ctx, lockWaitSQL, milliseconds(wait)); err != nil {
			return err
		}
		args := j.args(part)
		if j.lock != "" {
			if _, err := tx.Exec(ctx, j.lock, args[:2]...); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, j.held, args...)
		if err != nil {
			return err
		}
		return j.read(rows, part, out, done)
	})
}

// read takes the results over only when the statement has succeeded.
func (j judged[T]) read(rows pgx.Rows, part []int, out []T, done []bool) error {
	defer rows.Close()
	places, results := make([]int, 0, len(part)), make([]T, 0, len(part))
	for rows.Next() {
		place, result, err := j.scan(rows)
		if err != nil {
			return err
		}
		places, results = append(places, place), append(results, result)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	for i, place := range places {
		item := part[place-1]
		out[item], done[item] = results[i], true
	}
	return nil
}

const lockWaitSQL = `select set_config('lock_timeout', $1, true)`

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// indexes is 0..n-1.
func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// workspace is the parameter for a workspace's name. A name that no text column can hold is the name of none, and must
// not become another's by cleaning (I8); no workspace has the empty name.
func workspace(name string) string {
	if tasks.Clean(name) != name {
		return ""
	}
	return name
}
