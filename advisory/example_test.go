package advisory_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/advisory"
)

// Find out who led at 14:03:07. The messages come from a stream that keeps
// them, through a consumer of the group's subjects.
func ExampleTerms() {
	messages := []string{
		`{"version":1,"group":"reports","instance":"worker-1","event":"promoted","term":7,"time":"2026-11-20T13:58:00Z"}`,
		`{"version":1,"group":"reports","instance":"worker-1","event":"demoted","term":7,"time":"2026-11-20T14:03:05Z","reason":"unhealthy"}`,
		`{"version":1,"group":"reports","instance":"worker-2","event":"promoted","term":9,"time":"2026-11-20T14:03:06Z"}`,
	}
	var history []advisory.Advisory
	for _, m := range messages {
		a, err := advisory.Decode([]byte(m))
		if err != nil {
			fmt.Println(err)
			return
		}
		history = append(history, a)
	}
	at := time.Date(2026, 11, 20, 14, 3, 7, 0, time.UTC)
	for _, t := range advisory.Terms(slices.Values(history)) {
		if t.Covers(at) {
			fmt.Println(t.Leader, "in term", t.Number)
		}
	}
	// Output: worker-2 in term 9
}
