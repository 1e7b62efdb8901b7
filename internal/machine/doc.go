// Package machine is the election protocol as a pure function: who may lead,
// from when, until when, and what has to be written for it.
//
//	state, actions := m.Step(state, event, now)
//
// There is no I/O, clock, goroutine, logger or randomness in it. The time is an
// argument, random numbers and fresh tokens come in with the events, and what
// has to happen in the world comes out as actions. A State is comparable, so
// that the explorer in this package's tests can give each a number and visit
// every interleaving of a bounded world.
//
// Step is a function of values. Apply is the same in place, for a caller that
// makes many steps and keeps no state of before.
//
// The protocol and its safety argument are written down in docs/reference/protocol.md. In
// one paragraph: one record per group, each write a compare-and-swap on its
// revision. The holder counts the lease from the instant at which the last
// acknowledged write left, less the drift; everybody else counts it from the
// instant at which the record arrived, plus the drift, and then takes the
// record over by compare-and-swap. A leader that leaves stops its work first
// and writes a vacancy then. A write without an answer is neither a success nor
// a failure, and is resolved by looking.
//
// # Phases
//
//	        observed               due             ok
//	Idle ──────────────▶ Watching ─────▶ Claiming ─────▶ Holding
//	                        ▲ ▲    lost     │               │ loss, resignation,
//	                        │ └─────────────┘               │ step-down, stop
//	                        │                               ▼
//	                        └──── Releasing ◀──────────── Draining
//	                                      work has stopped
//
// Stopped is reached from every phase, and left from none.
package machine
