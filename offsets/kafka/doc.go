// Package kafka keeps positions where Kafka keeps them: in the commits of the consumer group, with what is settled
// beyond the position in the commit's metadata, so that after a crash those records are not worked on again.
//
// It promises:
//
//   - Nothing is sent for an owner that is gone (I2). A broker accepts a late commit of any live member, also downwards
//     and also for a partition that another member has, because the client puts its current member id on it. So each
//     commit names the member id under which its partitions were acquired, and it is compared at the last moment before
//     the request leaves.
//   - At most one commit is on the wire, and none moves a partition back within one membership: two commits cannot
//     overtake each other.
//   - Every item has its own outcome. Brokers report per partition, and a request that "succeeded" may have failed for
//     half of them.
//   - Metadata never costs a position: text that the broker finds too large is left out at once; text that cannot be
//     read is ignored.
//
// A Committer starts no goroutine. Commit holds its turn (a channel of one) for as long as the request takes, at most
// Config.Timeout; the callback that franz-go runs after a rebalance and Resume share a mutex that is never held while
// anything is waited for.
//
// What it does not do: know which partitions are assigned (a live member that commits a partition it has lost is not
// stopped here but by the consumer, which retires an assignment before its revoke callback returns), pace commits, or
// retry them. A commit may wait behind a rebalance of the group; its deadline ends that wait.
package kafka
