//go:build unix

package process

import "golang.org/x/sys/unix"

// Beside returns the files for a process that gets two further files and the
// files that this one was started with, which keep their numbers, and the
// numbers of the two.
func Beside(one, two uintptr) (files []uintptr, first, second int) {
	files = []uintptr{0, 1, 2}
	add := func(fd uintptr) int {
		for ; inherited(len(files)); files = append(files, uintptr(len(files))) {
		}
		files = append(files, fd)
		return len(files) - 1
	}
	first, second = add(one), add(two)
	return files, first, second
}

// inherited reports whether a file was passed to this process: what Go opens is
// closed at the start of another program.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}
