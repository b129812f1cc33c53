package offsets

import "errors"

// Outcomes of one Commit that a caller decides on, wherever positions are kept. Every other error of a commit is
// transient: the same position, or a later one, may be committed again.
var (
	// ErrNotOwner: the membership under which a partition was acquired is over, and with it every assignment that was
	// made under it. Committing goes on only after the partitions were assigned, and their positions read, again.
	ErrNotOwner = errors.New("partition is no longer owned by this member")
	// ErrRegress: the position is behind one committed before under the same member id. It was not sent.
	ErrRegress = errors.New("position is behind what was committed")
	// ErrInvalid: the item has no position (a broker would store that, and the group's would be gone), or names a
	// partition that an earlier item of the same call has named. It was not sent.
	ErrInvalid = errors.New("commit has no position or is a duplicate")
)
