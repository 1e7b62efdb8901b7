// Package engine is the runtime around the core: it runs one candidate of one
// election.
//
// The core, package machine, decides who may lead and when. A [Candidate] turns
// what happens into events for it and performs the actions that it answers
// with. Only the goroutine of the loop calls the core. Readers such as IsLeader
// never wait for it: they look at the trust window themselves.
//
// The files, from the ground up:
//
//   - events.go, inbox.go: what happens, and its way to the loop
//   - clock.go, trust.go: both clocks, the trust window, the term's context
//   - queue.go, callbacks.go: the program's callbacks, one after the other
//   - report.go, guard.go: logs, hooks, and where panics end
//   - env.go, config.go: what all parts share
//   - changes.go: how often a group got another leader
//   - storeio.go: calls to the store, the watch, the connection
//   - health.go, drain.go, takeover.go, peers.go: one concern each; none of them
//     knows the loop
//   - loop.go, control.go, view.go: the goroutine, requests, what readers see
//   - candidate.go, validation.go: what the public package calls
//
// The package leaves to its caller the validation of the configuration, the
// names and documentation of everything public, and the store's life.
package engine
