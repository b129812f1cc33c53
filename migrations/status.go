package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// Querier is what Status and Check need: a pgx pool, connection or transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const tableSQL = `select to_regclass('goose_db_version') is not null`

// goose keeps a row for each move, so the last row of a version says whether it is applied.
const appliedSQL = `
select version_id, tstamp
from (select distinct on (version_id) version_id, is_applied, tstamp at time zone current_setting('TimeZone') as tstamp
      from goose_db_version order by version_id, id desc) v
where is_applied and version_id > 0
order by version_id`

// Status lists every migration that this program knows or the database has, oldest first.
func Status(ctx context.Context, db Querier) ([]Version, error) {
	list, err := known()
	if err != nil {
		return nil, err
	}
	var exists bool
	if err := db.QueryRow(ctx, tableSQL).Scan(&exists); err != nil {
		return nil, fmt.Errorf("read the schema version: %w", err)
	}
	if !exists {
		return list, nil
	}
	rows, err := db.Query(ctx, appliedSQL)
	if err != nil {
		return nil, fmt.Errorf("read the schema version: %w", err)
	}
	var number int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&number, &at}, func() error {
		if i := slices.IndexFunc(list, func(v Version) bool { return v.Number == number }); i >= 0 {
			list[i].AppliedAt = at
		} else {
			list = append(list, Version{Number: number, AppliedAt: at})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the schema version: %w", err)
	}
	slices.SortFunc(list, func(a, b Version) int { return int(a.Number - b.Number) })
	return list, nil
}

// ErrNewer: the database is ahead of this program, and migrating would not help.
var ErrNewer = errors.New("which is newer than this program: upgrade fencepost")

// Check reports whether this program and the database fit: nil, or an error that wraps tasks.ErrSchema and says what to
// do when the database is behind or has migrations that this program does not know.
func Check(ctx context.Context, db Querier) error {
	list, err := Status(ctx, db)
	if err != nil {
		return err
	}
	var pending []string
	for _, v := range list {
		switch {
		case v.Name == "":
			return fmt.Errorf("%w: the database has migration %d, %w", tasks.ErrSchema, v.Number, ErrNewer)
		case v.AppliedAt.IsZero():
			pending = append(pending, v.Name)
		}
	}
	if len(pending) > 0 {
		return fmt.Errorf("%w: %d migration(s) pending (%s): run `fencepost migrate up`", tasks.ErrSchema, len(pending), strings.Join(pending, ", "))
	}
	return nil
}
