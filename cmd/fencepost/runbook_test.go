package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRunbookCommands: each command of the runbook is one of ours, with flags and as many arguments as it takes; and each flag
// that is named by itself is a setting of a process.
func TestRunbookCommands(t *testing.T) {
	text, err := os.ReadFile("../../offsets/dashboard/README.md")
	if err != nil {
		t.Fatal(err)
	}
	root := tree()
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		line := strings.Join(strings.Fields(m[1]), " ")
		if strings.HasPrefix(line, "--") {
			for _, word := range flagWord.FindAllString(line, -1) {
				name := strings.TrimPrefix(word, "--")
				known := run.Flags().Lookup(name) != nil || run.InheritedFlags().Lookup(name) != nil
				for _, also := range []string{"execute", "reason"} { // of what changes something
					known = known || name == also
				}
				if !known {
					t.Errorf("%s is no setting", word)
				}
			}
			continue
		}
		rest, ours := strings.CutPrefix(line, "fencepost ")
		if !ours {
			continue
		}
		commands++
		c, words, err := root.Find(strings.Fields(rest))
		if err != nil || c == root {
			t.Errorf("%q: there is no such command", line)
			continue
		}
		if err := c.ParseFlags(words); err != nil {
			t.Errorf("%q: %v", line, err)
		} else if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	if commands < 20 {
		t.Errorf("only %d commands were judged", commands)
	}
}
