package guard

import "syscall"

// An Ending describes how the program is asked to end, before SIGKILL ends it.
type Ending struct {
	Signal syscall.Signal `json:"signal,omitempty"` // 0: SIGTERM
	// Alone: the signals go to the program's first process alone, and what it
	// leaves when it ends gets SIGKILL at once, as by KillMode=mixed of systemd.
	// A master that passes signals on to its workers needs that.
	Alone bool `json:"alone,omitempty"`
	// Bounded: a signal that ends leader run leaves the program the
	// stop-timeout, and not the time that it takes.
	Bounded bool `json:"bounded,omitempty"`
}

// signal is the one that asks.
func (e Ending) signal() syscall.Signal {
	if e.Signal == 0 {
		return syscall.SIGTERM
	}
	return e.Signal
}

// passed is what a signal to leader run is to the program.
func (e Ending) passed(sig syscall.Signal) syscall.Signal {
	if sig == syscall.SIGTERM {
		return e.signal()
	}
	return sig
}
