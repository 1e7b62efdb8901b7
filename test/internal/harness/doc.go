// Package harness is common to the labs whose parts are separate processes. It
// starts servers and candidates as child processes, so that measured code
// shares no process with the code that serves it, counts what they cost, and
// computes the usual statistics of samples. Each lab decides on its own what to
// measure, and how to judge it.
//
// The fire lab (test/labs/chaos) starts its candidates itself, since it builds
// them with other clocks and with bugs.
package harness
