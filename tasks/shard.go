package tasks

// Shards is how many parts the outbox has; the schema has a row for each.
const Shards = 16

// Shard is the part of the outbox that takes a conversation's handoffs, so that one reader keeps their order. FNV-1a
// over workspace and conversation: the same for every writer, in every version.
func Shard(workspace, conversation string) int16 {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for _, s := range [...]string{workspace, "/", conversation} {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * prime
		}
	}
	return int16(h % Shards)
}
