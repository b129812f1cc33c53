package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/deadletter"
)

// plannedLetter is a letter with what is to be done with it.
type plannedLetter struct {
	deadletter.Letter
	Will deadletter.Verdict `json:"will"`
}

// requeueView is the plan, and what came of it.
type requeueView struct {
	From     string          `json:"from"`
	To       string          `json:"to"`
	Requeue  int             `json:"requeue"`
	Skip     int             `json:"skip"`
	Executed bool            `json:"executed"`
	Requeued int             `json:"requeued"` // acknowledged by the brokers
	Letters  []plannedLetter `json:"letters"`
}

func newDLQRequeue(a *app) *cobra.Command {
	l := &letters{a: a}
	cmd := &cobra.Command{
		Use:   "requeue [LETTER...]",
		Short: "Put dead letters back into the topic",
		Long: `Put dead letters back into the topic that they came from, with their own keys and values, one after the other, each
acknowledged by the brokers before the next. Without --execute the plan is printed and nothing is written.

Left out are letters whose content was too large to keep, those that no worker could read (--unreadable takes them all
the same, for workers of a newer version) and, with --postgres-url, those whose task is missing or has ended: the first
would come back, the second have nothing left to do. A task that failed is for "fencepost tasks retry".

A letter stays in its topic until retention takes it. Put back twice, it is two records for one task, which takes one.

Exit codes: 0 done, also when there was nothing to do; 2 not confirmed; 4 partly done.`,
		Example: "  fencepost dlq requeue 0:17 0:18 --kafka-brokers localhost:9092\n" +
			"  fencepost dlq requeue --all --reason unknown_task --since 2h --execute --yes",
	}
	l.flags(cmd)
	l.filters(cmd, 1000)
	var agree consent
	all := cmd.Flags().Bool("all", false, "all letters, or those that --reason and --since name")
	unreadable := cmd.Flags().Bool("unreadable", false, "also letters that this version cannot read")
	cmd.Flags().BoolVar(&agree.execute, "execute", false, "put them back; without it only the plan is printed")
	cmd.Flags().BoolVar(&agree.yes, "yes", false, "do not ask; needed where there is no terminal")
	output := outputFlag(cmd)
	cmd.ValidArgsFunction = l.complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, topic, err := l.open(cmd)
		if err != nil {
			return err
		}
		if *all == (len(args) > 0) {
			return cli.Usage("fencepost dlq list names them", "either letters or --all is needed")
		}
		if !*all && (cmd.Flags().Changed("reason") || cmd.Flags().Changed("since") || cmd.Flags().Changed("limit")) {
			return cli.Usage("leave them out", "--reason, --since and --limit are for --all")
		}
		ids, err := letterIDs(args)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
		defer cancel()
		var list []deadletter.Letter
		if *all {
			list, err = topic.List(ctx, l.query())
		} else {
			list, err = topic.Get(ctx, ids)
		}
		if err == nil {
			err = l.ask(ctx, list)
		}
		if err != nil {
			return l.explain(k, err)
		}
		view, todo := planRequeue(topic.Name, k.Topic, list, *unreadable)
		if !agree.execute || len(todo) == 0 {
			return view.print(a, *output)
		}
		if err := agree.ask(a, *output, fmt.Sprintf("Put %d letters back into %s?", len(todo), k.Topic)); err != nil {
			return err
		}
		view.Executed = true
		view.Requeued, err = topic.Requeue(cmd.Context(), k.Topic, todo, l.timeout)
		if printed := view.print(a, *output); printed != nil {
			return printed
		}
		switch {
		case err == nil:
			return nil
		case view.Requeued == 0:
			return l.explain(k, err)
		}
		return &cli.Error{Code: cli.Partly, Hint: "repeat the command; what is put back a second time does no harm",
			Err: fmt.Errorf("%d of %d letters were put back: %w", view.Requeued, len(todo), err)}
	}
	return cmd
}

func planRequeue(from, to string, list []deadletter.Letter, unreadable bool) (view requeueView, todo []deadletter.Letter) {
	view = requeueView{From: from, To: to, Letters: []plannedLetter{}}
	for _, letter := range list {
		will := deadletter.Judge(letter, unreadable)
		if will == deadletter.Requeue {
			todo = append(todo, letter)
			view.Requeue++
		} else {
			view.Skip++
		}
		letter.Headers = nil
		view.Letters = append(view.Letters, plannedLetter{letter, will})
	}
	return view, todo
}

func (v requeueView) print(a *app, f cli.Format) error {
	if f != cli.Table && f != cli.Wide {
		return cli.One(a.Out, f, v, nil)
	}
	columns := make([]cli.Column[plannedLetter], 0, len(letterColumns)+1)
	for _, c := range letterColumns {
		columns = append(columns, cli.Column[plannedLetter]{Title: c.Title, Wide: c.Wide, Text: func(p plannedLetter) string { return c.Text(p.Letter) }})
	}
	columns = append(columns, cli.Column[plannedLetter]{Title: "WILL", Text: func(p plannedLetter) string {
		return cmp.Or(map[deadletter.Verdict]string{deadletter.Requeue: "requeue"}[p.Will], "skip: "+string(p.Will))
	}})
	if err := cli.List(a.Out, f, "letters", v.Letters, columns); err != nil {
		return err
	}
	words := fmt.Sprintf("%d to put back into %s, %d left out", v.Requeue, v.To, v.Skip)
	if v.Executed {
		words = fmt.Sprintf("%d of %d put back into %s, %d left out", v.Requeued, v.Requeue, v.To, v.Skip)
	}
	if _, err := fmt.Fprintln(a.Out, words); err != nil {
		return err
	}
	if !v.Executed && v.Requeue > 0 {
		a.note("nothing was written; add --execute to do it")
	}
	return nil
}
