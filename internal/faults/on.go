//go:build faults

// Package faults lets tests strike the goroutines of this library from inside.
//
// Point marks a place in one of our goroutines. In a build with the tag faults,
// it calls the function that a test has set by Set, which may panic.
// Without the tag Point is empty and costs nothing.
package faults

import "sync/atomic"

//nolint:gochecknoglobals // a test reaches code through it that knows nothing of tests
var striker atomic.Pointer[func(point string)]

// Set has strike called at every point that is passed from now on, by
// whatever goroutine passes it. Nil ends that.
func Set(strike func(point string)) {
	if strike == nil {
		striker.Store(nil)
		return
	}
	striker.Store(&strike)
}

// Point calls the function of Set, if there is one.
func Point(name string) {
	if strike := striker.Load(); strike != nil {
		(*strike)(name)
	}
}
