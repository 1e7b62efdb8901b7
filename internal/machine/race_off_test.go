//go:build !race

package machine

// raceEnabled is true in a build with the race detector.
const raceEnabled = false
