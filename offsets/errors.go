package offsets

import "errors"

// ErrNotOwner: the membership under which a partition was acquired is over, and with it every assignment that was made
// under it. Committing goes on only after the partitions were assigned, and their positions read, again.
var ErrNotOwner = errors.New("partition is no longer owned by this member")
