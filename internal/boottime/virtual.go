//go:build unix || windows

package boottime

import "time"

// virtual reports whether the caller is in a bubble of testing/synctest, whose
// time begins in the year 2000 and differs from the system's.
func virtual() bool {
	for range 3 { // the wall clock may leap between two readings
		if d := time.Now().UnixNano() - systemTime(); -int64(time.Minute) < d && d < int64(time.Minute) {
			return false
		}
	}
	return true
}
