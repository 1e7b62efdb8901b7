//go:build !race

package specification

const raceDetector = false
