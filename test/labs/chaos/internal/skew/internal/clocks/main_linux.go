// Clocks times what a program does by its own clocks and by the machine's, and
// prints a line of JSON for each: see the tests of package skew.
package main

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Row is the duration of one thing that was done, in nanoseconds.
type Row struct {
	What string

	Monotonic, Wall, Boot, Day int64 // the process's own
	True                       int64 // the machine's
}

// A reading is one of all clocks.
type reading struct {
	now             time.Time
	boot, day, true int64
}

// together is what a reading may take. A program that is stopped in the middle
// of one compares clocks of different instants, so it reads again.
const together = time.Millisecond

func read() (r reading) {
	for range 1000 {
		begun := clock(unix.CLOCK_MONOTONIC)
		var day syscall.Timeval
		if err := syscall.Gettimeofday(&day); err != nil {
			panic(err)
		}
		r = reading{time.Now(), clock(unix.CLOCK_BOOTTIME), day.Nano(), clock(unix.CLOCK_MONOTONIC)}
		if r.true-begun < int64(together) {
			break
		}
	}
	return r
}

// since returns how long it is since an earlier reading, by each clock.
func (r reading) since(o reading) Row {
	return Row{
		Monotonic: int64(r.now.Sub(o.now)), Wall: r.now.UnixNano() - o.now.UnixNano(),
		Boot: r.boot - o.boot, Day: r.day - o.day, True: r.true - o.true,
	}
}

func main() {
	const d = time.Second
	out := json.NewEncoder(os.Stdout)
	for _, w := range []struct {
		what string
		do   func()
	}{
		{"true sleep", func() { trueSleep(d) }},
		{"time.Sleep", func() { time.Sleep(d) }}, //nolint:forbidigo // its length is what is measured
		{"time.AfterFunc", func() {
			done := make(chan struct{})
			time.AfterFunc(d, func() { close(done) })
			<-done
		}},
		{"context deadline", func() {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			<-ctx.Done()
		}},
		{"read deadline", func() { readDeadline(d) }},
		{"timer at an instant of CLOCK_BOOTTIME", func() { timer(unix.TFD_TIMER_ABSTIME, clock(unix.CLOCK_BOOTTIME)+int64(d)) }},
		{"timer after a while", func() { timer(0, int64(d)) }},
	} {
		begun := read()
		w.do()
		row := read().since(begun)
		row.What = w.what
		if err := out.Encode(row); err != nil {
			panic(err)
		}
	}
}

// trueSleep sleeps by the machine's clock.
func trueSleep(d time.Duration) {
	for end := clock(unix.CLOCK_MONOTONIC) + int64(d); clock(unix.CLOCK_MONOTONIC) < end; {
		rest := unix.NsecToTimespec(end - clock(unix.CLOCK_MONOTONIC))
		_ = unix.Nanosleep(&rest, nil) // a signal ends it early
	}
}

// clock asks the kernel for a clock.
func clock(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// timer waits for a timer of the kernel's.
func timer(flags int, at int64) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was read
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at)}
	if err := unix.TimerfdSettime(fd, flags, &spec, nil); err != nil {
		panic(err)
	}
	if spec.Value.Nano() != at {
		panic("what was asked for has changed")
	}
	if _, err := unix.Read(fd, make([]byte, 8)); err != nil {
		panic(err)
	}
}

// readDeadline waits for input that does not come.
func readDeadline(d time.Duration) {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	defer w.Close() //nolint:errcheck // nothing was written
	if err := r.SetReadDeadline(time.Now().Add(d)); err != nil {
		panic(err)
	}
	_, _ = r.Read(make([]byte, 1))
}
