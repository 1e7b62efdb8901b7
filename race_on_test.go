//go:build race

package leader_test

// raceEnabled: random schedules take six times as long here, so they are fewer.
// make test also runs all of them without the race detector.
const raceEnabled = true
