// Package quorumstore makes one store of several independent ones: three NATS
// servers without a cluster, three regions, three technologies side by side.
//
// It is experimental for one release: the API and the format of the members'
// registers may change.
//
//	st, err := quorumstore.New([]quorumstore.Member{
//		{Name: "a", Store: a}, {Name: "b", Store: b}, {Name: "c", Store: c},
//	}, quorumstore.Options{})
//
// Each register is replicated by CASPaxos, whose acceptors are the members' own
// registers. A call is answered when more than half of the members have
// answered, so the store keeps the promises of package store while fewer than
// half of them are gone, slow or cut off, or while one was wiped. No server is
// added, and elections need no change. docs/reference/quorum-protocol.md
// contains the rules and the argument.
//
// # What it leaves to its caller
//
// All members have to answer before a key gets its first value.
//
// A member must not go back to an older state: a server that does not sync each
// write and lost power, a restored copy, a replica that was promoted. Wipe it
// before it returns. Check refuses a member that reports itself as Forgetful or
// as Expires.
//
// Members are independent only if they share no server, no disk and no
// administrator. The names of the members identify the group permanently: a
// member cannot be added or replaced by another name while the group is used.
//
// Writers that compete for one key without a pause may get an unknown outcome
// although nothing failed: others adopted a writer's value and wrote over it
// more than four times before the writer heard of either. An election resolves
// it by reading, as it resolves a lost answer. A read of a key whose writer died
// half-way ends the dead writer's call after a second, and needs permission to
// write for that.
//
// Everything that was ever read or written stays in a Store's memory, so a
// program must not go through an unbounded number of keys.
//
// # Watches
//
// The watches of the members are merged. A watch delivers a state when a
// majority of the members is seen to agree on it, and "nothing" of a key that a
// majority does not know, or knows promises of alone. A member that does not
// report changes is read once per heartbeat. WatchPattern needs more than half
// of the members to be pattern watchers. If a key that is watched by its name
// shows a member without memory of what others remember, or a newer value
// without a majority, and nothing moves for 10 s, the watch has the present value
// chosen again, and needs permission to write for that.
//
// A writer waits for a majority alone. It may leave out a slow member, which
// gets the next version. If a member of that majority is away then, a reader
// shows the version before, for some 10 s or until the next write.
//
// # A member that was made again
//
// A write expects a revision that the member showed. A member that was wiped
// counts its revisions from the beginning, and may reach a revision that
// a process still expects, over a state that this process never saw. Such a
// write would be a vote that does not count. A Store therefore reads a member's
// register again before it writes there
//
//   - after the member's connection was interrupted,
//   - after the member showed a lower revision of any key than before, or gave
//     a write a revision that is not above the expected one,
//   - if the knowledge is older than 30 seconds.
//
// This leaves a gap, in which an acknowledged write can be lost: a member is
// wiped without an interruption of its connection, and other writers bring the
// key to exactly the expected revision before the process has heard of any of
// it. A process that renews, watches or polls hears within a heartbeat. The gap
// is one request long where a member is made again while a write to it is under
// way.
package quorumstore
