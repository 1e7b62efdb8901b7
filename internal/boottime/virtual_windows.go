package boottime

import "syscall"

// systemTime reads the wall clock past the time package.
func systemTime() int64 {
	var ft syscall.Filetime
	syscall.GetSystemTimeAsFileTime(&ft)
	return ft.Nanoseconds()
}
