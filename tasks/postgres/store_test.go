package postgres

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestOpenSaysWhatToCheck(t *testing.T) {
	good := pgtest.URL(t)
	for _, c := range []struct{ name, url, want string }{
		{"nobody listens", "postgres://someone:hunter2@127.0.0.1:1/d?sslmode=disable", "127.0.0.1:1/d: cannot connect"},
		{"no such host", "postgres://someone:hunter2@nowhere.invalid:5432/d", "nowhere.invalid:5432/d: the host name"},
		{"no such database", strings.Replace(good, "fencepost_test_", "absent_", 1), "it has no database"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), Config{URL: c.url})
			if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %v with %q", err, tasks.ErrUnavailable, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("holds the password: %v", err)
			}
		})
	}
}

func TestUnmigratedDatabase(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: pgtest.Empty(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Task(t.Context(), "w", uuid.New())
	if !errors.Is(err, tasks.ErrSchema) || !strings.Contains(err.Error(), "fencepost migrate") {
		t.Errorf("%v; want %v", err, tasks.ErrSchema)
	}
}

func TestDoneContext(t *testing.T) {
	k := newKit(t)
	why := errors.New("shut down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := k.store.Submit(ctx, []tasks.Submission{submission("c")}); !errors.Is(err, why) {
		t.Errorf("%v; want the cause of the context", err)
	}
}

// TestPooler runs a task's life on the settings for a transaction pooler, which plan and encode by another way.
func TestPooler(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: pgtest.URL(t), Pooler: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	k := &kit{TB: t, store: s}
	refs := k.submit(3)
	works := k.claim(time.Hour, refs...)
	if ok, err := s.Renew(t.Context(), time.Hour, []tasks.Assignment{works[0].Assignment}); err != nil || ok[0] != tasks.RenewalKept {
		t.Errorf("renew: %v, %v", ok, err)
	}
	failed := tasks.Settlement{Assignment: works[1].Assignment, Outcome: tasks.OutcomeFail, Failure: tasks.Failure{Class: "permanent"}}
	settled, err := s.Settle(t.Context(), []tasks.Settlement{complete(works[0], "reply"), failed})
	if err != nil || settled[0].Status != tasks.StatusCompleted || settled[1].Status != tasks.StatusFailed {
		t.Errorf("settle: %+v, %v", settled, err)
	}
	if _, cancelled, err := s.Cancel(t.Context(), "w", refs[2].TaskID); err != nil || !cancelled {
		t.Errorf("cancel: %t, %v", cancelled, err)
	}
	list, err := s.Tasks(t.Context(), tasks.Filter{Workspace: "w", Status: tasks.StatusCompleted})
	if err != nil || len(list) != 1 || list[0].Reply == nil || list[0].Reply.Text != "reply" {
		t.Errorf("tasks: %+v, %v", list, err)
	}
}

func TestKeys(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	secret := tasks.NewKey()
	made, err := k.store.CreateKey(ctx, "w", "laptop", tasks.HashKey(secret))
	if err != nil || made.Workspace != "w" || made.Name != "laptop" || made.CreatedAt.IsZero() || made.Revoked() {
		t.Fatalf("create: %+v, %v", made, err)
	}
	if got, err := k.store.KeyByHash(ctx, tasks.HashKey(secret)); err != nil || !reflect.DeepEqual(got, made) {
		t.Errorf("by hash: %+v, %v; want %+v", got, err, made)
	}
	if _, err := k.store.KeyByHash(ctx, tasks.HashKey("fp_other")); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("unknown key: %v", err)
	}
	if _, err := k.store.CreateKey(ctx, "w", "again", tasks.HashKey(secret)); !errors.Is(err, tasks.ErrInvalid) {
		t.Errorf("the same secret again: %v, want %v", err, tasks.ErrInvalid)
	}
	if _, err := k.store.CreateKey(ctx, "", "x", tasks.HashKey("y")); !errors.Is(err, tasks.ErrInvalid) {
		t.Errorf("no workspace: %v, want %v", err, tasks.ErrInvalid)
	}
	if err := errors.Join(k.store.RevokeKey(ctx, made.ID), k.store.RevokeKey(ctx, made.ID)); err != nil {
		t.Errorf("revoke twice: %v", err)
	}
	if err := k.store.RevokeKey(ctx, uuid.New()); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("revoke an unknown key: %v", err)
	}
	for workspace, want := range map[string]int{"w": 1, "other": 0, "": 1} {
		list, err := k.store.ListKeys(ctx, workspace)
		if err != nil || len(list) != want || want == 1 && !list[0].Revoked() {
			t.Errorf("keys of %q: %+v, %v; want %d, revoked", workspace, list, err, want)
		}
	}
}

// TestIsolate gives items that fail alone and a statement that is undone now and then.
func TestIsolate(t *testing.T) {
	bad := map[int]string{3: "22P05", 4: "54000", 17: "23505", 40: "55P03"}
	var done, alone []int
	undone := 0
	err := isolate(t.Context(), indexes(41), func(part []int) error {
		if undone++; undone%3 == 0 {
			return &pgconn.PgError{Code: "40P01"}
		}
		for _, i := range part {
			if c, is := bad[i]; is {
				return &pgconn.PgError{Code: c}
			}
		}
		done = append(done, part...)
		return nil
	}, func(err error) bool { return badData(err) || lockTimeout(err) }, func(item int, err error) error {
		alone = append(alone, item)
		if code(err) != bad[item] {
			t.Errorf("item %d: %v, want %s", item, err, bad[item])
		}
		return nil
	})
	if err != nil || !slices.Equal(alone, []int{3, 4, 17, 40}) || len(done) != 41-len(bad) {
		t.Errorf("alone %v, %d others done; %v", alone, len(done), err)
	}
	lost := errors.New("connection lost")
	if err := isolate(t.Context(), indexes(8), func([]int) error { return lost }, badData, nil); !errors.Is(err, lost) {
		t.Errorf("%v, want what is not one item's fault to end the call", err)
	}
}

func TestParts(t *testing.T) {
	sizes := []int{partBytes, 1, partBytes + 1, 2, 3}
	got := parts(indexes(len(sizes)), func(i int) int { return sizes[i] })
	want := [][]int{{0}, {1}, {2}, {3, 4}}
	if !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Errorf("by bytes: %v, want %v", got, want)
	}
	if got := parts(indexes(2*partItems+1), func(int) int { return 0 }); len(got) != 3 || len(got[2]) != 1 {
		t.Errorf("by items: %d parts", len(got))
	}
}
