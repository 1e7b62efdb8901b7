//go:build unix

package boottime

import "syscall"

// systemTime reads the wall clock past the time package.
func systemTime() int64 {
	var tv syscall.Timeval
	if err := syscall.Gettimeofday(&tv); err != nil {
		return 0
	}
	return tv.Nano()
}
