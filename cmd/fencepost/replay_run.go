package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/replay"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// progressEvery is how often a long replay says how far it has come.
const progressEvery = 10 * time.Second

// rearming is one run of a replay that re-arms tasks: of a range, or of a list.
type rearming struct {
	consent
	rearmSettings
	kind   string
	scope  string
	terms  tasks.RearmTerms
	output cli.Format
	// plan makes what there is to plan of a new replay; the partitions of one that is gone on with come from its own.
	plan func() (replay.Plan, error)
	// items are what is behind the cursor.
	items func(replay.Plan, replay.Cursor) iter.Seq2[replay.Item, error]
}

func (r *rearming) run(ctx context.Context, a *app, store *postgres.Store) error {
	open, err := store.OpenReplay(ctx, r.scope)
	resumed := err == nil
	if err != nil && !errors.Is(err, tasks.ErrNotFound) {
		return storeError(err)
	}
	var plan replay.Plan
	var cursor replay.Cursor
	if resumed {
		var was replay.Plan
		if err := errors.Join(json.Unmarshal(open.Plan, &was), json.Unmarshal(open.Cursor, &cursor)); err != nil {
			return fmt.Errorf("replay %s: %w", open.ID, err)
		}
		plan = replay.Plan{Kind: was.Kind, Group: was.Group, Topic: was.Topic, Partitions: was.Partitions}
		for i := range plan.Partitions {
			plan.Partitions[i].Records = 0
		}
		words := "--execute goes on with it"
		if r.execute {
			words = "going on with it"
		}
		a.note("replay %s of %s by %s was interrupted after %d tasks: %s", open.ID, cli.Time(open.StartedAt), open.Actor, open.Rearmed, words)
	} else if plan, err = r.plan(); err != nil {
		return err
	}
	work := &replayStore{store: store, id: open.ID, terms: r.terms}
	if err := plan.Add(ctx, work, r.items(plan, cursor)); err != nil {
		return kafkaReadError(err)
	}
	view := viewPlan(plan)
	if !r.execute {
		if err := view.print(a.Out, r.output); err != nil {
			return err
		}
		if plan.Will.Rearm > 0 {
			a.note("Nothing was changed. To do it, add: --execute --reason TEXT")
		}
		return nil
	}
	if plan.Will.Rearm == 0 {
		if resumed {
			if err := store.EndReplay(ctx, open.ID); err != nil {
				return storeError(err)
			}
		}
		a.note("there is nothing to do")
		return view.print(a.Out, r.output)
	}
	if err := r.ask(a, r.output, fmt.Sprintf("Re-arm %d tasks, %s?", plan.Will.Rearm, view.Cost.words())); err != nil {
		return err
	}
	if !resumed {
		start, _ := json.Marshal(cursor)
		open, err = store.BeginReplay(ctx, tasks.Replay{
			ID: uuid.Must(uuid.NewV7()), Kind: r.kind, Scope: r.scope, Actor: actor(), Reason: r.reason, Plan: view.bytes(), Cursor: start,
		})
		if err != nil {
			return storeError(err)
		}
		work.id = open.ID
	}
	done, all, err := replay.Execute(ctx, work, r.items(plan, cursor), cursor, r.pace, a.progress(plan.Will.Rearm))
	view.Executed = &executedView{ID: open.ID, Actor: open.Actor, Reason: open.Reason, Resumed: resumed, Done: all,
		Rearmed: open.Rearmed + done.Rearmed, Skipped: open.Skipped + done.Skipped}
	if err == nil && all {
		if err = store.EndReplay(ctx, open.ID); err == nil {
			return view.print(a.Out, r.output)
		}
	}
	if printed := view.print(a.Out, r.output); printed != nil {
		return printed
	}
	again := "the same command goes on where this has stopped"
	if err != nil {
		return &cli.Error{Code: cli.Partly, Hint: again, Err: fmt.Errorf("replay %s has re-armed %d tasks and is not done: %w", open.ID, view.Executed.Rearmed, err)}
	}
	return &cli.Error{Code: cli.Partly, Hint: again, Err: fmt.Errorf("replay %s has re-armed %d tasks, as many as --max allows, and is not done", open.ID, view.Executed.Rearmed)}
}

// progress tells a person how far a replay has come, now and then.
func (a *app) progress(of int64) func(replay.Progress) {
	last := time.Now()
	return func(p replay.Progress) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			a.note("re-armed %d of %d tasks, looked at %d records, skipped %d tasks", p.Rearmed, of, p.Records, p.Skipped)
		}
	}
}

// replayError adds what to do to an error of package replay.
func replayError(err error) error {
	var active *replay.ActiveError
	var partly *replay.PartlyError
	switch {
	case errors.As(err, &partly):
		var again []string
		for _, p := range slices.Sorted(maps.Keys(partly.Failed)) {
			again = append(again, fmt.Sprintf("--partition %d --to-offset %d", p, partly.To[p]))
		}
		return &cli.Error{Code: cli.Partly, Hint: "to repeat what is missing: fencepost replay rewind " + strings.Join(again, ", and ") +
			" --execute; or take it all back with --from-file and the undo file", Err: err}
	case errors.As(err, &active):
		return cli.Refuse("stop these workers first; when they have left, repeat the command", "%w", err)
	case errors.Is(err, replay.ErrRange):
		return cli.Refuse("--clamp takes the nearest offset that there is", "%w", err)
	case errors.Is(err, replay.ErrNoPosition):
		return cli.Refuse("name the place with --to-offset, --to-earliest or --to-latest", "%w", err)
	case errors.Is(err, replay.ErrTopic):
		return cli.Fail("check --kafka-topic, or: fencepost topics create", "%w", err)
	case errors.Is(err, replay.ErrPartition):
		return cli.Usage("fencepost lag lists the partitions of the topic", "%w", err)
	case errors.Is(err, replay.ErrUndo):
		return cli.Refuse("", "%w", err)
	}
	return err
}

// kafkaReadError is replayError, with the way to the brokers checked where nothing better is known.
func kafkaReadError(err error) error {
	var known *cli.Error
	if err = replayError(err); err == nil || errors.As(err, &known) || errors.Is(err, errSignal) {
		return err
	}
	return cli.Fail("check --kafka-brokers, that the broker runs, and that its advertised listeners are reachable from here", "%w", err)
}
