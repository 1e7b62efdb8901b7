package boottime

import (
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Of linux/time.h and linux/timerfd.h.
const (
	clockBoottime     = 7
	timerAbsoluteTime = 1
)

// now reads CLOCK_BOOTTIME.
func now() int64 {
	if !hasBoottime() {
		return wallNow()
	}
	at, _ := readBoottime()
	return at
}

// hasBoottime reports whether the kernel lets us read the clock: one that did
// once does so always, and the two clocks must not be mixed.
//
//nolint:gochecknoglobals // It is a property of the process.
var hasBoottime = sync.OnceValue(func() bool {
	_, ok := readBoottime()
	return ok
})

func readBoottime() (int64, bool) {
	var ts syscall.Timespec
	//nolint:gosec // The kernel fills in ts, which lives until the call has returned.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}

// openAlarm opens a timerfd, or a ticker where the kernel or the limit of
// descriptors refuses that.
func openAlarm() alarm {
	if !hasBoottime() {
		return newTicker()
	}
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return newTicker()
	}
	return &timerfd{fd, os.NewFile(fd, "timerfd")}
}

// A timerfd rings at an instant of CLOCK_BOOTTIME. After a suspension it rings
// at once if the instant came during that.
type timerfd struct {
	fd uintptr
	f  *os.File
}

// An itimerspec is the kernel's: how often the timer repeats, and when it
// rings.
type itimerspec struct{ interval, value syscall.Timespec }

func (t *timerfd) set(at int64) {
	spec := itimerspec{value: syscall.NsecToTimespec(max(at, 1))} // 0 would switch it off
	//nolint:gosec // The kernel reads spec, which lives until the call has returned.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, t.fd, timerAbsoluteTime, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (t *timerfd) wait() bool {
	var count [8]byte
	_, err := t.f.Read(count[:])
	return err == nil
}

func (t *timerfd) close() { _ = t.f.Close() }
