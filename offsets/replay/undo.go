package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/offsets"
)

// ErrUndo: the file is not what a rewind of this group has written.
var ErrUndo = errors.New("not an undo file for this")

// maxUndo bounds what is read of an undo file, in bytes: far more than the largest topic needs.
const maxUndo = 256 << 20

// undo is the file: what stood before a rewind, exactly.
type undo struct {
	Version    int             `json:"v"`
	Group      string          `json:"group"`
	Topic      string          `json:"topic"`
	TopicID    uuid.UUID       `json:"topic_id"`
	WrittenAt  time.Time       `json:"written_at"` // by this machine's clock, for people
	Partitions []undoPartition `json:"partitions"`
}

type undoPartition struct {
	Partition   int32  `json:"partition"`
	Committed   Offset `json:"committed"` // null: the group had committed nothing
	LeaderEpoch int32  `json:"leader_epoch"`
	Metadata    string `json:"metadata"`
	// Settled is what was stored with the replies, half-open spans; null: nothing was.
	Settled *[][2]int64 `json:"settled"`
}

func (k Kept) undo(partition int32) undoPartition {
	u := undoPartition{Partition: partition, Committed: Offset(k.Committed), LeaderEpoch: k.LeaderEpoch, Metadata: k.Metadata}
	if k.Stored {
		spans := make([][2]int64, len(k.Settled))
		for i, r := range k.Settled {
			spans[i] = [2]int64{r.From, r.To}
		}
		u.Settled = &spans
	}
	return u
}

func (u undoPartition) kept() Kept {
	k := Kept{Committed: int64(u.Committed), LeaderEpoch: u.LeaderEpoch, Metadata: u.Metadata, Stored: u.Settled != nil}
	if k.Stored {
		for _, s := range *u.Settled {
			k.Settled = append(k.Settled, offsets.Run{From: s[0], To: s[1]})
		}
	}
	return k
}

// write makes the file, which must not be there yet, and returns when it is on the disk.
func (u undo) write(path string) (err error) {
	text, err := json.MarshalIndent(u, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("undo file: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("undo file: %w", err)
	}
	// Without this a crash of the machine could keep the move and lose the file's name.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("undo file: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("undo file: %w", err)
	}
	return nil
}

func readUndo(path string) (u undo, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return u, fmt.Errorf("undo file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxUndo {
		return u, fmt.Errorf("%w: %s is not a file of at most %d bytes", ErrUndo, path, maxUndo)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return u, fmt.Errorf("undo file: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&u); err != nil {
		return u, fmt.Errorf("%w: %s: %w", ErrUndo, path, err)
	}
	if u.Version != 1 || len(u.Partitions) == 0 {
		return u, fmt.Errorf("%w: %s has version %d and %d partitions", ErrUndo, path, u.Version, len(u.Partitions))
	}
	seen := map[int32]bool{}
	for _, p := range u.Partitions {
		if seen[p.Partition] {
			return u, fmt.Errorf("%w: %s names partition %d twice", ErrUndo, path, p.Partition)
		}
		seen[p.Partition] = true
		if p.Settled == nil {
			continue
		}
		last := int64(-1)
		for _, s := range *p.Settled {
			if s[0] <= last || s[1] <= s[0] {
				return u, fmt.Errorf("%w: %s: partition %d has spans that are not in order", ErrUndo, path, p.Partition)
			}
			last = s[1]
		}
	}
	return u, nil
}
