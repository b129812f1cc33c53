package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Bounds of a request's metadata, as OpenAI documents them.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// call is a request as the engine sees it, over HTTP or in process.
type call struct {
	model    string
	content  string // the last user message
	messages int    // without what the system is told
	system   int    // bytes that the system is told
	input    int64  // tokens of all messages
	limit    int64  // of output tokens, 0: none
	stream   bool
	usage    bool // asked for in a stream

	store      bool // the answer can be asked for later
	background bool // it is made whether or not the client waits
	metadata   map[string]string
	params     json.RawMessage // for the ledger
}

// hear counts a message in; size sums the bytes of all.
func (c *call) hear(role, text string, size *int) {
	*size += len(text)
	switch role {
	case "system", "developer":
		c.system += len(text)
		return
	case "user":
		c.content = text
	}
	c.messages++
}

// limitTo takes the first limit that is there.
func (c *call) limitTo(limits ...*int64) error {
	for _, limit := range limits {
		if limit == nil {
			continue
		}
		if *limit < 1 {
			return errors.New("the limit of tokens must be 1 or more")
		}
		c.limit = *limit
	}
	return nil
}

func checkMetadata(m map[string]string) error {
	if len(m) > maxMetadata {
		return fmt.Errorf("metadata has %d keys, more than %d", len(m), maxMetadata)
	}
	for k, v := range m {
		if len(k) > maxMetadataKey || len(v) > maxMetadataValue {
			return fmt.Errorf("metadata holds a key of more than %d characters or a value of more than %d", maxMetadataKey, maxMetadataValue)
		}
	}
	return nil
}

// contentText takes a string, or the list of parts that newer clients send.
func contentText(raw json.RawMessage) (string, error) {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("a message's content must be a string or a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// tokens is the simulated model's tokenizer: four bytes are one.
func tokens(bytes int) int64 { return int64(bytes+3) / 4 }
