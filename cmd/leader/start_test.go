package main

import (
	"fmt"
	"strings"
	"testing"
)

// mostAtInit is how much a package of ours may allocate while a program that
// imports it starts: a few regular expressions. One with a long counted
// repetition, such as {1,255}, takes thousands of allocations and milliseconds.
const mostAtInit = 100

// A library costs every program that imports it what its packages do before
// main, whether or not it is used.
func TestOurPackagesDoNextToNothingBeforeMain(t *testing.T) {
	t.Parallel()
	code, _, stderr := execute(t, []string{"GODEBUG=inittrace=1"}, "version")
	seen := 0
	for line := range strings.Lines(stderr) {
		var pkg string
		var at, took float64
		var size, allocs int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &pkg, &at, &took, &size, &allocs); n != 5 {
			continue
		}
		seen++
		// The command's own package has the variables of these tests.
		ours := strings.HasPrefix(pkg, "github.com/seed-ff2cb582/leader") && pkg != "github.com/seed-ff2cb582/leader/cmd/leader"
		if ours && allocs > mostAtInit {
			t.Errorf("%s allocates %d times, %d bytes, in %v ms", pkg, allocs, size, took)
		}
	}
	if code != 0 || seen == 0 {
		t.Errorf("exit status %d, and nothing is known of %d packages: %s", code, seen, stderr)
	}
}
