package tasks

import "github.com/google/uuid"

// Place is where a record stands in Kafka and who received it there. A settlement that carries one stores, in its own
// transaction, that the record is settled; position and reply commit or fail together.
type Place struct {
	Group     string
	TopicID   uuid.UUID // of the topic, so that a recreated one begins anew
	Partition int32
	Epoch     int64 // owner epoch, taken when the partition was assigned
	// From, To is the half-open span of offsets that the record accounts for: from behind the record before it, so that
	// gaps are settled with the record that follows them.
	From, To int64
}

// Zero reports whether positions are kept elsewhere.
func (p Place) Zero() bool { return p == Place{} }
