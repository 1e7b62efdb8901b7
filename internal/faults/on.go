//go:build faults

// Package faults lets tests strike the goroutines of this library from inside.
//
// Point marks a place in a goroutine of ours. In a build with the tag faults,
// what a test has installed by Install is called there, and may panic. Without
// the tag Point is empty and costs nothing.
package faults

import "sync/atomic"

//nolint:gochecknoglobals // a test reaches code through it that knows nothing of tests
var installed atomic.Pointer[func(point string)]

// Install has strike called at every point that is passed from now on, by
// whatever goroutine passes it. Nil ends that.
func Install(strike func(point string)) {
	if strike == nil {
		installed.Store(nil)
		return
	}
	installed.Store(&strike)
}

// Point calls what was installed, if anything.
func Point(name string) {
	if strike := installed.Load(); strike != nil {
		(*strike)(name)
	}
}
