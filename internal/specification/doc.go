// Package specification states the protocol of docs/protocol.md a second time,
// from that page alone, so that a mistake in the core's idea of itself cannot
// hide in the judge that reads that idea.
//
// The package has two halves, and neither imports the core:
//
//   - model.go, network.go and candidate.go are a transition system: candidates
//     with clocks of their own rate, a register with its history, and writes,
//     replies, observations that may be lost, late, repeated or
//     reordered. invariants.go judges its states by ghost variables: what the
//     register applied, what each candidate was told, and for how long that
//     lets it act. check.go visits every state, breadth first.
//   - refinement.go is the same specification for one candidate of the real
//     core: it is told what the candidate was told and what it did, and says
//     which act the protocol does not allow.
//
// Nothing of this is linked into a program.
package specification
