package main

import "github.com/seed-ff2cb582/leader/test/internal/harness"

// A lab is what the sections measure in.
type lab struct {
	harness.Run

	one     *servers
	three   *servers
	report  *report
	buckets int
}
