// Package fence turns stale leaders away at the resource that they would
// damage.
//
// A lease cannot undo an act: a leader may be paused between the look at its
// lease and the write that follows, for any length, and then write. Only the
// resource itself can refuse that write. It needs one rule, and one thing to
// remember:
//
//	accept a term if its number is larger than any seen, or equal with the same token.
//
// A number larger than [MaxTerm] is not a term of any election. Every guard
// refuses it, and reports a mark that has it, instead of refusing all leaders
// as stale.
//
// The resource remembers a [Mark]: a small value, whose method [Mark.Accept] is
// the rule. It holds a digest of the token and not the token, so that a reader
// of the resource's state cannot pass for the leader.
//
// # What a guard owes
//
//   - Persist before acting. Store the new mark durably before the first effect
//     of its term; otherwise the resource forgets at a restart which terms it
//     has to refuse.
//   - Check and act in one step. Between a check and the act that follows, a
//     newer term may be let in. Either make both one transaction or one
//     conditional write, or keep the acts of a term apart from the next term's,
//     as [Gate.Enter] does.
//   - Keep one mark for a group and a resource. Terms of different groups have
//     no order.
//   - Marks move by compare-and-swap, or by one writer. Two writers that each
//     store what they read plus one term undo one another.
//   - Know who states a term. The rule orders terms and proves nothing: one
//     request with a large number refuses every leader until the mark is reset.
//     Let candidates alone reach the guard (client certificates, the network,
//     the rights of a database or of NATS), or demand a proof of each new term
//     ([Gate].Vet).
//
// # Ready guards
//
//   - [Gate], for a resource inside one process: a device, a file, a child
//     process.
//   - Package natsfence: a key-value bucket or stream of NATS, where the server
//     refuses.
//   - Package sqlfence: PostgreSQL, MySQL, MariaDB, SQLite, inside the caller's
//     transaction.
//   - Package httpfence: a transport that states the term of each request, a
//     handler that refuses.
//
// # What no guard can do
//
// Effects of a stale leader's act that came before the first act of its
// successor are accepted: until then the resource cannot know. A new leader
// that reads before it writes therefore presents its term first (an empty
// transaction, an opened guard), and then reads. A guard protects one resource;
// an act on two resources is as atomic as those make it. And a guard is a rule
// among programs that keep it: it does not stop a program that can write to the
// resource without it.
package fence
