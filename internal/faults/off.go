//go:build !faults

// Package faults lets tests strike the goroutines of this library from inside.
//
// Point marks a place in a goroutine of ours. In a build with the tag faults,
// what a test has installed by Install is called there, and may panic. Without
// the tag Point is empty and costs nothing.
package faults

// Point does nothing.
func Point(string) {}
