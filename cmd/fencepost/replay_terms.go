package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/replay"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// moreInterruptions is what a re-armed task gets, as many as a new one.
const moreInterruptions = 10

// consent is what the verbs that change something on an operator's word have in common: they plan, and do it when told.
type consent struct {
	execute, yes bool
	reason       string
}

func (c *consent) flags(f *pflag.FlagSet, what string) {
	f.BoolVar(&c.execute, "execute", false, what+"; without it only the plan is printed")
	f.StringVar(&c.reason, "reason", "", "why, for the record")
	f.BoolVar(&c.yes, "yes", false, "do not ask; needed where there is no terminal")
}

func (c *consent) check(needsReason bool) error {
	c.reason = strings.TrimSpace(c.reason)
	if c.execute && needsReason && c.reason == "" {
		return cli.Usage(`for example --reason "quota was raised"`, "--reason is missing: --execute needs one, for the record")
	}
	return nil
}

// ask returns nil when the operator agrees. A document on stdout is for a program, which is not asked.
func (c *consent) ask(a *app, output cli.Format, question string) error {
	if c.yes {
		return nil
	}
	if !a.InTTY || !a.ErrTTY || output != cli.Table && output != cli.Wide {
		return cli.Usage("add --yes", "%s Nobody can be asked here, and nothing was changed", question)
	}
	_, _ = fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.In).ReadString('\n')
	if word := strings.ToLower(strings.TrimSpace(line)); word != "y" && word != "yes" {
		return cli.Usage("", "cancelled, nothing was changed")
	}
	return nil
}

// rearmSettings are the terms of a re-arm. The budget is what a new task would get.
type rearmSettings struct {
	attempts int
	deadline time.Duration
	unsure   bool
	pace     replay.Pace
}

// settings have the meaning that they have for new tasks.
func (r *rearmSettings) settings(f *pflag.FlagSet) {
	f.IntVar(&r.attempts, "max-attempts", 5, "provider calls for a task, unless the message says otherwise")
	f.DurationVar(&r.deadline, "deadline", time.Hour, "age at which a task is given up, unless the message says otherwise")
}

func (r *rearmSettings) flags(f *pflag.FlagSet) {
	f.BoolVar(&r.unsure, "risk-second-charge", false, "re-arm also tasks that stopped because a call may have run; they retry from then on")
	f.Float64Var(&r.pace.PerSecond, "rate", 0, "most tasks to re-arm in a second; 0: no bound")
	f.Int64Var(&r.pace.Max, "max", 0, "most tasks to re-arm now; the same command goes on; 0: no bound")
}

func (r *rearmSettings) check() error {
	if r.pace.PerSecond < 0 || r.pace.Max < 0 {
		return cli.Usage("0 is no bound", "--rate and --max must not be below 0")
	}
	if r.attempts < 1 || r.attempts > 20 {
		return cli.Usage("", "--max-attempts: %d is not within 1 and 20", r.attempts)
	}
	if r.deadline < time.Second {
		return cli.Usage("", "--deadline: %s is too short, the least is 1s", r.deadline)
	}
	return nil
}

func (r *rearmSettings) terms(failed, unfinished bool) tasks.RearmTerms {
	return tasks.RearmTerms{
		Failed: failed, Unfinished: unfinished, Attempts: r.attempts, Interruptions: moreInterruptions, Deadline: r.deadline, Unsure: r.unsure,
	}
}

// replayStore is the store of one replay.
type replayStore struct {
	store *postgres.Store
	id    uuid.UUID // uuid.Nil while there is only a plan
	terms tasks.RearmTerms
}

var _ replay.Tasks = (*replayStore)(nil)

// Look implements replay.Tasks.
func (s *replayStore) Look(ctx context.Context, list []replay.Ref) ([]replay.State, error) {
	found, err := s.store.Look(ctx, s.id, taskRefs(list))
	if err != nil {
		return nil, storeError(err)
	}
	out := make([]replay.State, len(found))
	for i, l := range found {
		out[i] = replay.State{
			Status: string(l.Status), Rearm: s.terms.Judge(l) == tasks.RearmDone, Model: l.Model, Priced: l.Priced, PicoUSD: l.PicoUSD,
		}
	}
	return out, nil
}

// Rearm implements replay.Tasks.
func (s *replayStore) Rearm(ctx context.Context, step replay.Step) (rearmed int64, err error) {
	cursor, err := json.Marshal(step.Cursor)
	if err != nil {
		return 0, err
	}
	verdicts, err := s.store.Rearm(ctx, tasks.RearmStep{Replay: s.id, Items: taskRefs(step.Refs), Skipped: step.Skipped, Cursor: cursor}, s.terms)
	if errors.Is(err, tasks.ErrNotFound) {
		return 0, cli.Fail("", "replay %s was ended by another process", s.id)
	}
	for _, v := range verdicts {
		if v == tasks.RearmDone {
			rearmed++
		}
	}
	return rearmed, storeError(err)
}

func taskRefs(list []replay.Ref) []tasks.Ref {
	out := make([]tasks.Ref, len(list))
	for i, r := range list {
		out[i] = tasks.Ref{TaskID: r.Task, Workspace: r.Workspace}
	}
	return out
}

// scope is the same for the same command: an interrupted replay is found by it.
func scope(parts ...any) string {
	text, _ := json.Marshal(parts) // words, numbers and lists of them
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// actor is who runs the command.
func actor() string {
	name := fmt.Sprint("uid ", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return name + "@" + host
}

// arm registers the flags that a verb which re-arms has.
func arm(cmd *cobra.Command, c *consent, r *rearmSettings) {
	settingsFor(cmd, r.settings)
	c.flags(cmd.Flags(), "re-arm the tasks")
	r.flags(cmd.Flags())
}
