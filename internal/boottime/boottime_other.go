//go:build !linux

package boottime

// The standard library has no clock that is sure to run on during a suspension,
// but the wall clock.
func now() int64 { return wallNow() }

func openAlarm() alarm { return newTicker() }
