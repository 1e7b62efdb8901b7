//go:build !race

package leader_test

// raceEnabled is true in a build with the race detector.
const raceEnabled = false
