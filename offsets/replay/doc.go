// Package replay has work done again, in two ways that have two different dangers.
//
// A range replay reads records of partitions without being a member of any group, and has the tasks that they point at
// re-armed where that is wanted: the store gives them a new handoff and a visible new budget. The danger is to pay twice.
// It promises:
//
//   - No position of any group moves. The reader has no group.
//   - The plan is exact: distinct tasks by state, as they were when it was made. What is done is judged again, task by task,
//     under the task's lock, by the store.
//   - It ends: the end of the log is that of the plan, so that what a replay brings about is not replayed.
//   - Interrupted, it goes on from its cursor, which the store keeps in the transaction that re-arms. Records behind the
//     cursor are not read again; a task that stands in many records is re-armed once (the store sees to that).
//
// A rewind moves the committed position of a group, in both places where positions are kept. The danger is to skip work, or
// to be undone by a member that commits what it had. It promises:
//
//   - A group with members is refused, by us and once more by the broker, which accepts no commit from outside while the
//     group has any.
//   - What was there before is in a file on the disk before anything moves, exactly: offsets, leader epochs, metadata and
//     spans. The same command takes it all back.
//   - Positions in the store are moved first, with the owners' epochs raised; then the group's. Whoever takes a partition over merges
//     both, and so goes on from the farther one: should the second step fail, a rewind has not happened for any worker, and
//     the error says what stands.
//   - Every partition has its own outcome, and is read back.
//
// What is settled beyond the position is forgotten by a move backwards, so that those records are read again: tasks that have
// ended cost a look-up. A move forwards keeps it.
//
// Nothing here knows Postgres or tasks: Tasks and Positions are what the caller's stores have to do. Clients for reading are
// opened and closed within a call; no goroutine of ours outlives one.
package replay
