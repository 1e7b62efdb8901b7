// Clocks times what a program does by its own clocks and by the machine's, and
// prints a line of JSON for each: see the tests of package skew.
package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Row is the duration of one thing that was done, in nanoseconds.
type Row struct {
	What                  string
	Monotonic, Wall, True int64
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
	} {
		begun, trueBegun := time.Now(), trueNow()
		w.do()
		ended, trueEnded := time.Now(), trueNow()
		row := Row{w.what, int64(ended.Sub(begun)), ended.UnixNano() - begun.UnixNano(), trueEnded - trueBegun}
		if err := out.Encode(row); err != nil {
			panic(err)
		}
	}
}

// trueSleep sleeps by the machine's clock.
func trueSleep(d time.Duration) {
	for end := trueNow() + int64(d); trueNow() < end; {
		rest := unix.NsecToTimespec(end - trueNow())
		_ = unix.Nanosleep(&rest, nil) // a signal ends it early
	}
}

// trueNow reads the machine's monotonic clock.
func trueNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
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
