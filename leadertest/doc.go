// Package leadertest helps programs to test what they do when leadership comes
// and goes.
//
// It contains no fakes. A test gets real elections of package leader, on a
// store in memory, and steers what happens to them: so the order of callbacks,
// the trust window, tokens, reasons and errors match production, and remain so
// when the library changes.
//
//   - [New] returns one election that the test promotes, demotes, cuts off and
//     lets expire. It is for code that takes a [leader.Election].
//   - [NewGroup] returns a group, whose candidates the test starts and cuts
//     off. It is for several copies of a program, and for code that makes its
//     own elections on a store ([leader.RunWithStore],
//     [leader.NewElectionWithStore]).
//
// Code that takes a connection to NATS is tested with an embedded server.
//
// # Time
//
// Both work with the clock of the machine and in the virtual time of
// testing/synctest. Promotion and demotion take no time worth mentioning.
// Whatever waits for a lease takes a lease: [Election.Expire] by the machine's
// clock takes the TTL, and in virtual time nothing. In a bubble of synctest
// make the group within it, as the examples do, and end there what the test
// started.
//
// A method that waits does so for a minute, or for five leases where those are
// longer. Then it fails the test by Fatalf. So call these methods from the
// test's own goroutine.
//
// # What can not be tested so
//
// The clocks of a group's candidates agree, none of them is suspended, and the
// store forgets nothing. The limits of an election, a pause between IsLeader
// and its use above all, are stated in package leader.
package leadertest
