//go:build race

package natsstore_test

const raceEnabled = true
