package postgres

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Array parameters are most of what the store sends. pgx would encode a slice of uuid.UUID through driver.Valuer, as
// text, and box every element of a []string; these types hand it pointers to the elements instead: a third of the
// store's own time for a batch.

type uuidArray []uuid.UUID

func (a uuidArray) Dimensions() []pgtype.ArrayDimension { return dimensions(len(a)) }
func (a uuidArray) Index(i int) any                     { return (*uuidElement)(&a[i]) }
func (uuidArray) IndexType() any                        { return (*uuidElement)(nil) }

type uuidElement uuid.UUID

// UUIDValue implements pgtype.UUIDValuer.
func (e *uuidElement) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *e, Valid: true}, nil
}

type textArray []string

func (a textArray) Dimensions() []pgtype.ArrayDimension { return dimensions(len(a)) }
func (a textArray) Index(i int) any                     { return (*textElement)(&a[i]) }
func (textArray) IndexType() any                        { return (*textElement)(nil) }

type textElement string

// TextValue implements pgtype.TextValuer.
func (e *textElement) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: string(*e), Valid: true}, nil
}

func dimensions(n int) []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(n), LowerBound: 1}}
}

// column makes the array parameter of one field of a part's items.
func column[T, V any](items []T, part []int, value func(*T) V) []V {
	all := make([]V, len(part))
	for i, item := range part {
		all[i] = value(&items[item])
	}
	return all
}

func uuids[T any](items []T, part []int, value func(*T) uuid.UUID) uuidArray {
	return column(items, part, value)
}

func texts[T any](items []T, part []int, value func(*T) string) textArray {
	return column(items, part, value)
}
