package offsets

// Owner is the right to store positions of one partition beside the replies, taken when the partition was assigned. The
// owner with the greatest epoch is the only one whose stores are accepted.
type Owner struct {
	Group     string
	TopicID   [16]byte // a topic that is made again under its name begins anew
	Partition int32
	Epoch     int64
}

// Begin asks for the ownership of a partition.
type Begin struct {
	Group     string
	Topic     string
	TopicID   [16]byte
	Partition int32
	// Settled is what the group's commit says: [0, position) and the runs ahead of it. It is merged into what is stored,
	// so that a group may change the place of its positions, both ways, without losing or repeating a record.
	Settled []Run
	// End is the log's end. What is stored as settled beyond it speaks of records that are gone, and is dropped. A position
	// of the group beyond it speaks of another log, and with it all of Settled counts for nothing.
	End int64
}

// Begun is an ownership, and all that is settled of its partition. A first run that begins at 0 ends at the position.
type Begun struct {
	Owner
	Settled []Run
}

// Place is a settled span of an owner's partition.
type Place struct {
	Owner
	Run
}
