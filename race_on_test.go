//go:build race

package leader_test

// raceEnabled: random schedules take six times as long here, so they are fewer.
// make test runs all of them without the race detector besides.
const raceEnabled = true
