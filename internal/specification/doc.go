// Package specification states the protocol of docs/reference/protocol.md a second time,
// from that page alone, so that a mistake in the core's idea of itself cannot
// hide in the judge that reads that idea.
//
// The package has two halves, and neither imports the core:
//
//   - model.go, network.go and candidate.go are a transition system: candidates
//     with clocks of different rates, a register with its history, and writes,
//     replies, observations that may be lost, late, repeated or reordered.
//     invariants.go judges its states by ghost variables: what the register
//     applied, what each candidate heard, and for how long that lets it act.
//     check.go visits every state, breadth first.
//   - refinement.go is the same specification for one candidate of the real
//     core: it hears what the candidate heard and did, and reports each act
//     that the protocol does not allow.
//
// Nothing of this is linked into a program.
package specification
