// Package harness is what the programs that measure have in common: the
// benchmark (test/labs/bench) and the comparison with other libraries
// (test/labs/compare).
//
// It starts servers and candidates as child processes, so that what is measured
// shares no process with what serves it, counts what they cost, and says of
// samples what is usually said of them. What is measured, and how it is judged,
// is each program's own.
package harness
