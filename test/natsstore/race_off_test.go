//go:build !race

package natsstore_test

const raceEnabled = false
