//go:build !faults

// Package faults lets tests strike the goroutines of this library from inside.
//
// Point marks a place in one of our goroutines. In a build with the tag faults,
// it calls the function that a test has set by Set, which may panic.
// Without the tag Point is empty and costs nothing.
package faults

// Point does nothing.
func Point(string) {}
