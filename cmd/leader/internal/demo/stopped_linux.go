package demo

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// stopPause and stopLooks bound how long a worker is awaited that somebody else
// continues just now.
const (
	stopPause = time.Millisecond
	stopLooks = 1000
)

// awaitStopped waits until all threads of a child that was sent a stop have
// stopped, or it is gone, and reports whether that was seen. It consumes no
// notice of the child except the stop.
func awaitStopped(pid int) bool {
	pause := time.NewTicker(stopPause)
	defer pause.Stop()
	for range stopLooks {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
		if stopped := err == nil && info.Signo != 0; stopped || errors.Is(err, unix.ECHILD) {
			return true
		}
		<-pause.C
	}
	return false
}
