package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets"
	offsetstore "github.com/fencepost/fencepost/offsets/postgres"
	"github.com/fencepost/fencepost/offsets/replay"
	"github.com/fencepost/fencepost/tasks"
)

func newRewind(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rewind",
		Short: "Move the position of a group that no worker is in",
		Long: `Move the committed position of a group, and what is kept of it with the replies, so that its workers read records
again, or pass over them. Records of tasks that have ended cost a look-up and no call. Without --execute the plan is
printed and nothing is changed. A group with members is refused: stop its workers first.

Before anything moves, what stands is written to an undo file, which is named in the output; --from-file takes it all
back, exactly. A move back forgets what was settled beyond the target; a move forwards passes over tasks that are not
finished: the dispatcher finds them later and hands them off again.

Exit codes: 0 done; 2 not confirmed; 3 refused, nothing was changed; 4 partly done.`,
		Example: "  fencepost replay rewind --group fencepost --partition 0 --to-offset 100\n" +
			"  fencepost replay rewind --group fencepost --all-partitions --to-time 2h --execute --yes\n" +
			"  fencepost replay rewind --from-file fencepost-undo.json --execute --yes",
		Args: arguments(),
	}
	var kafka kafkaSettings
	var postgres postgresSettings
	var which partitionFlags
	var agree consent
	settingsFor(cmd, kafka.flags, postgres.flags)
	which.flags(cmd.Flags())
	f := cmd.Flags()
	name := f.String("group", "", "`group` to move, instead of --kafka-group")
	toOffset := f.Int64("to-offset", 0, "move to this `offset`")
	toTime := f.String("to-time", "", "move to the first record as new as this `time`, RFC 3339 or how long ago")
	f.Bool("to-earliest", false, "move to the oldest record that there is")
	f.Bool("to-latest", false, "move behind the newest record")
	by := f.Int64("by", 0, "move by so many `offsets` from where each partition is; below 0 is back")
	fromFile := f.String("from-file", "", "undo `file` of an earlier rewind: move to exactly what it says")
	undoFile := f.String("undo-file", "", "`file` to write what stands to; it must not be there yet")
	clamp := f.Bool("clamp", false, "take the nearest offset that there is for one out of range")
	agree.flags(f, "move the group")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if err := agree.check(false); err != nil {
			return err
		}
		kind, err := oneOf(cmd.Flags(), []string{"to-offset", "to-time", "to-earliest", "to-latest", "by", "from-file"}, true)
		if err != nil {
			return err
		}
		var target replay.Target
		var partitions []int32
		switch kind {
		case "to-offset":
			target, err = offsetTarget(kind, *toOffset)
		case "to-time":
			target, err = timeTarget(kind, *toTime)
		case "to-latest":
			target = replay.End()
		case "by":
			target = replay.Shift(*by)
		}
		if err != nil {
			return err
		}
		if kind == "from-file" {
			if err := which.undo(cmd, &kafka, name, *fromFile); err != nil {
				return err
			}
		}
		if partitions, err = which.read(); err != nil {
			return err
		}
		if *name != "" {
			kafka.group = *name
		}
		k, err := kafka.read(a)
		if err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		log, closeLog, err := openLog(a, cmd, &kafka)
		if err != nil {
			return err
		}
		defer closeLog()
		positions := storedPositions{offsetstore.New(store.Pool()), actor()}
		r, err := replay.NewRewind(cmd.Context(), log, positions, k.Group, partitions)
		if err != nil {
			return kafkaReadError(err)
		}
		if kind == "from-file" {
			err = r.Restore(*fromFile)
		} else {
			err = r.To(cmd.Context(), target, *clamp)
		}
		if err != nil {
			return kafkaReadError(err)
		}
		plan, err := r.Plan(cmd.Context(), &replayStore{store: store})
		if err != nil {
			return kafkaReadError(err)
		}
		view := viewPlan(plan)
		if !agree.execute || !r.Moves() {
			if r.Moves() {
				a.note("Nothing was changed. To do it, add: --execute")
			} else {
				a.note("there is nothing to do")
			}
			return view.print(a.Out, *output)
		}
		if err := agree.ask(a, *output, fmt.Sprintf("Move group %s in %d partitions?", k.Group, len(plan.Partitions))); err != nil {
			return err
		}
		file := *undoFile
		if file == "" {
			file = fmt.Sprintf("fencepost-undo-%s-%s.json", fileWord.ReplaceAllString(k.Group, "_"), time.Now().UTC().Format("20060102T150405.000Z"))
		}
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
		id := uuid.Must(uuid.NewV7())
		account, err := store.BeginReplay(cmd.Context(), tasks.Replay{
			ID: id, Kind: "rewind", Scope: scope("rewind", id), Actor: actor(), Reason: agree.reason, Plan: view.bytes(), Cursor: []byte(`{}`),
		})
		if err != nil {
			return storeError(err)
		}
		view.Executed = &executedView{ID: id, Actor: account.Actor, Reason: account.Reason, UndoFile: file}
		// What fails stays open in the account: it says what was wanted, and that it was not done.
		if err := r.Execute(cmd.Context(), file); err != nil {
			return kafkaReadError(err)
		}
		if err := store.EndReplay(context.WithoutCancel(cmd.Context()), id); err != nil {
			a.note("Note: the group was moved, and the account of it could not be closed: %v", err)
		}
		view.Executed.Done = true
		return view.print(a.Out, *output)
	}
	return cmd
}

// fileWord is what a group's name may have and a file's should not.
var fileWord = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// undo takes group, topic and partitions from an undo file, where the command line leaves them out.
func (p *partitionFlags) undo(cmd *cobra.Command, kafka *kafkaSettings, name *string, path string) error {
	group, topic, partitions, err := replay.Undo(path)
	if err != nil {
		return replayError(err)
	}
	if !cmd.Flags().Changed("group") && !cmd.Flags().Changed("kafka-group") {
		*name = group
	}
	if !cmd.Flags().Changed("kafka-topic") {
		kafka.topic = topic
	}
	if len(p.list) > 0 {
		asked, err := p.read()
		if err != nil {
			return err
		}
		for _, n := range asked {
			if !slices.Contains(partitions, n) {
				return cli.Usage("", "--partition: %s says nothing of partition %d", path, n)
			}
		}
		return nil
	}
	p.all = false
	for _, n := range partitions {
		p.list = append(p.list, cli.Number(n))
	}
	return nil
}

// storedPositions are positions kept with the replies, moved by an operator.
type storedPositions struct {
	*offsetstore.Positions
	actor string
}

// Settled implements replay.Positions.
func (s storedPositions) Settled(ctx context.Context, group string, topicID [16]byte) (map[int32][]offsets.Run, error) {
	list, err := s.Read(ctx, group)
	if err != nil {
		return nil, err
	}
	out := make(map[int32][]offsets.Run)
	for _, p := range list {
		if p.TopicID == topicID {
			out[p.Partition] = p.Settled
		}
	}
	return out, nil
}

// Move implements replay.Positions.
func (s storedPositions) Move(ctx context.Context, moves []offsets.Move) error {
	return s.Positions.Move(ctx, "replay rewind by "+s.actor, moves)
}
