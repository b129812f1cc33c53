package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/tasks"
)

// roomy is more than any test's conversation has, but for those of long ones.
var roomy = tasks.HistoryLimits{Turns: 100, Bytes: 1 << 20}

func (k *kit) histories(limits tasks.HistoryLimits, works ...tasks.Work) []tasks.History {
	k.Helper()
	items := make([]*tasks.Work, len(works))
	for i := range works {
		items[i] = &works[i]
	}
	out, err := k.Store.Histories(k.ctx, limits, items)
	if err != nil || len(out) != len(items) {
		k.Fatalf("%d histories of %d, %v", len(out), len(items), err)
	}
	return out
}

// wantHistory wants turns as "message>reply", oldest first.
func (k *kit) wantHistory(h tasks.History, dropped int, turns ...string) {
	k.Helper()
	var got []string
	for _, t := range h.Turns {
		got = append(got, t.Content+">"+t.Reply)
	}
	if !slices.Equal(got, turns) || h.Dropped != dropped {
		k.Fatalf("history %q and %d dropped, want %q and %d", got, h.Dropped, turns, dropped)
	}
}

// say submits a message to a conversation.
func (k *kit) say(conversation, content string, change ...func(*tasks.Submission)) tasks.Submission {
	k.Helper()
	return k.submit(append(change, func(s *tasks.Submission) { s.Conversation, s.Request.Content = conversation, content })...)
}

// answered says a message and answers it.
func (k *kit) answered(conversation, content, reply string, change ...func(*tasks.Submission)) tasks.Submission {
	k.Helper()
	s := k.say(conversation, content, change...)
	k.settle(complete(k.take(s), reply), tasks.VerdictAccepted, tasks.StatusCompleted)
	return s
}

// anew regenerates the answer to the message of s.
func (k *kit) anew(s tasks.Submission) tasks.Submission {
	k.Helper()
	return k.submit(func(n *tasks.Submission) {
		n.Conversation, n.Kind, n.Regenerates, n.MessageID = s.Conversation, tasks.KindRegenerate, s.TaskID, s.MessageID
	})
}

var historyTests = []test{
	{"a_history_is_what_was_said_before", func(k *kit) {
		k.answered("other", "elsewhere", "there")
		k.answered("c", "one", "1")
		failed := k.say("c", "two")
		k.settle(fail(k.take(failed)), tasks.VerdictAccepted, tasks.StatusFailed)
		cancelled := k.say("c", "three")
		k.cancel(cancelled, true, tasks.StatusCancelled)
		k.say("c", "four") // not answered yet
		k.answered("c", "five", "5")
		w := k.take(k.say("c", "now"))
		k.say("c", "later")
		k.wantHistory(k.histories(roomy, w)[0], 0, "one>1", "two>", "three>", "four>", "five>5")
	}},
	{"the_first_message_has_no_history", func(k *kit) {
		_, w := k.started()
		k.wantHistory(k.histories(roomy, w)[0], 0)
		if out := k.histories(roomy); len(out) != 0 {
			k.Fatalf("%+v", out)
		}
	}},
	{"a_history_has_the_current_reply", func(k *kit) {
		s := k.answered("c", "one", "first")
		for _, text := range []string{"second", "third"} {
			k.settle(complete(k.take(k.anew(s)), text), tasks.VerdictAccepted, tasks.StatusCompleted)
		}
		pending := k.anew(s)
		w := k.take(k.say("c", "now"))
		k.wantHistory(k.histories(roomy, w)[0], 0, "one>third")
		k.cancel(pending, true, tasks.StatusCancelled)
		k.wantHistory(k.histories(roomy, w)[0], 0, "one>third")
	}},
	{"what_is_regenerated_has_the_history_of_its_message", func(k *kit) {
		k.answered("c", "one", "1")
		s := k.answered("c", "two", "2")
		k.answered("c", "three", "3")
		k.wantHistory(k.histories(roomy, k.take(k.anew(s)))[0], 0, "one>1")
	}},
	{"a_history_is_the_longest_end_within_the_limits", func(k *kit) {
		k.answered("c", "a", "A")                                                            // 2 bytes
		k.answered("c", "bb", strings.Repeat("B", 98))                                       // 100
		k.say("c", "c")                                                                      // 1
		k.answered("c", "\u00e9", "\u20ac")                                                  // 2 + 3, counted in bytes and not in characters
		w := k.take(k.say("c", strings.Repeat("the message itself does not count ", 1_000))) // of no weight
		b := "bb>" + strings.Repeat("B", 98)
		for _, c := range []struct {
			turns, bytes, dropped int
			want                  []string
		}{
			{100, 108, 0, []string{"a>A", b, "c>", "\u00e9>\u20ac"}},
			{4, 108, 0, []string{"a>A", b, "c>", "\u00e9>\u20ac"}},
			{100, 107, 1, []string{b, "c>", "\u00e9>\u20ac"}},
			{100, 105, 2, []string{"c>", "\u00e9>\u20ac"}}, // and not the small one before the big one
			{100, 6, 2, []string{"c>", "\u00e9>\u20ac"}},
			{100, 5, 3, []string{"\u00e9>\u20ac"}},
			{100, 4, 4, nil},
			{3, 1000, 1, []string{b, "c>", "\u00e9>\u20ac"}},
			{1, 1000, 3, []string{"\u00e9>\u20ac"}},
			{0, 1000, 4, nil},
			{100, 0, 4, nil},
			{-1, -1, 4, nil},
		} {
			k.wantHistory(k.histories(tasks.HistoryLimits{Turns: c.turns, Bytes: c.bytes}, w)[0], c.dropped, c.want...)
		}
	}},
	{"dropped_turns_are_counted_up_to_a_bound", func(k *kit) {
		var items []tasks.Submission
		for i := range tasks.MaxHistoryDropped + 5 {
			items = append(items, submission(func(s *tasks.Submission) { s.Request.Content = fmt.Sprint(i) }))
		}
		k.submitAll(items...)
		_, last := k.started()
		limits := tasks.HistoryLimits{Turns: 2, Bytes: 1000}
		k.wantHistory(k.histories(limits, last)[0], tasks.MaxHistoryDropped, "1003>", "1004>")
		k.wantHistory(k.histories(tasks.HistoryLimits{Turns: 100}, last)[0], tasks.MaxHistoryDropped)
		limits.Turns = 6
		k.wantHistory(k.histories(limits, last)[0], tasks.MaxHistoryDropped-1, "999>", "1000>", "1001>", "1002>", "1003>", "1004>")
	}},
	{"histories_of_a_batch", func(k *kit) {
		k.answered("c", "one", "1")
		two := k.answered("c", "two", "2")
		k.answered("d", "other", "9")
		again := k.take(k.anew(two))
		here, there := k.take(k.say("c", "here")), k.take(k.say("d", "there"))
		out := k.histories(tasks.HistoryLimits{Turns: 1, Bytes: 1000}, here, there, again, here)
		k.wantHistory(out[0], 1, "two>2")
		k.wantHistory(out[1], 0, "other>9")
		k.wantHistory(out[2], 0, "one>1")
		k.wantHistory(out[3], 1, "two>2")
	}},
	{"I8_a_history_is_of_one_workspace", func(k *kit) {
		foreign := func(s *tasks.Submission) { s.Workspace = "w2" }
		k.answered("c", "theirs", "t", foreign)
		k.answered("c", "ours", "o")
		theirs, ours := k.take(k.say("c", "now", foreign)), k.take(k.say("c", "now"))
		out := k.histories(roomy, theirs, ours)
		k.wantHistory(out[0], 0, "theirs>t")
		k.wantHistory(out[1], 0, "ours>o")
		stolen, none := theirs, ours
		stolen.Workspace = workspace
		none.Workspace = "\x00" + workspace
		for _, h := range k.histories(roomy, stolen, none) {
			k.wantHistory(h, 0)
		}
		// What a work says of its conversation is not asked.
		lying := ours
		lying.Conversation = "d"
		k.wantHistory(k.histories(roomy, lying)[0], 0, "ours>o")
	}},
}
