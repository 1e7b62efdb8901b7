// Package harness is what the labs have in common whose parts are processes of
// their own: it starts servers and candidates as child processes, so that what
// is measured shares no process with what serves it, counts what they cost, and
// says of samples what is usually said of them. What is measured, and how it is
// judged, is each lab's own.
//
// The fire lab (test/labs/chaos) starts its candidates itself, since it builds
// them with other clocks and with bugs.
package harness
