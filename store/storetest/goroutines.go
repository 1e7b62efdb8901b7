package storetest

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
)

// claimLabel marks the goroutines that a claim's examination starts.
const claimLabel = "storetest.claim"

// examineAlone examines the claim with a label on its goroutine. A goroutine
// inherits the labels of the one that starts it, so that the goroutines of
// clients that the claim opens are distinguishable from a server's in the same
// process, and from those of tests that run at the same time.
func (x *exam) examineAlone(c claim) {
	pprof.Do(context.Background(), pprof.Labels(claimLabel, x.Name()), func(context.Context) { c.examine(x) })
}

// leavesNoGoroutine demands that what the claim does again and again leaves no
// goroutine behind.
func (x *exam) leavesNoGoroutine(what string, times int, once func()) {
	x.Helper()
	once() // what a client keeps for all of its kind may stay
	before := x.goroutines()
	for range times {
		once()
	}
	x.poll(fmt.Sprintf("the goroutines of %d %s to end", times, what), func() bool { return x.goroutines() <= before+5 })
}

// profiled matches an entry of a profile in text: the number of goroutines at
// one place, and their labels.
var profiled = regexp.MustCompile(`(?m)^(\d+) @.*\n# labels: (\{.*\})$`)

// goroutines returns how many goroutines the claim's examination has started
// that have not ended.
func (x *exam) goroutines() (n int) {
	x.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		x.Fatal(err)
	}
	label := fmt.Appendf(nil, "%q:%q", claimLabel, x.Name())
	for _, entry := range profiled.FindAllSubmatch(profile.Bytes(), -1) {
		if bytes.Contains(entry[2], label) {
			standing, err := strconv.Atoi(string(entry[1]))
			if err != nil {
				x.Fatal(err)
			}
			n += standing
		}
	}
	if n == 0 {
		x.Fatal("the goroutine of the claim itself is not in the profile")
	}
	return n
}
