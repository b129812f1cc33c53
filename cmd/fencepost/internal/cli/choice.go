package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is a flag's value that takes one of a few words.
type Choice struct {
	word  string
	words []string
}

// NewChoice takes the default first.
func NewChoice(words ...string) *Choice { return &Choice{word: words[0], words: words} }

// String returns the word.
func (c *Choice) String() string { return c.word }

// Type is what help shows for the value.
func (c *Choice) Type() string { return strings.Join(c.words, "|") }

// Set takes one of the words.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("supported: %s", strings.Join(c.words, ", "))
	}
	c.word = word
	return nil
}

// Words lists what can be chosen.
func (c *Choice) Words() []string { return c.words }
