//go:build race

package machine

// raceEnabled: the race detector makes everything here about ten times slower,
// and has nothing to find in a pure function, so bounds are smaller under it.
const raceEnabled = true
