package offsets

// Move sets what is stored as settled of one partition beside the replies, for an operator who moves a group.
type Move struct {
	Group     string
	TopicID   [16]byte
	Partition int32
	Was       []Run // what the operator has seen: the move is refused when it is not so any more
	To        []Run
}
