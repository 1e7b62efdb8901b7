//go:build linux

package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The program under leader run is this test's executable, told so by its
// environment.
const (
	kindVariable = "TRIAL_PROGRAM" // one of the kinds
	logVariable  = "TRIAL_LOG"     // the file that all programs append to
	partVariable = "TRIAL_PART"    // which process of a program it is
)

// A kind is a way in which a program behaves when it is to stop.
type kind string

const (
	plain    kind = "plain"    // ends soon after SIGTERM
	stubborn kind = "stubborn" // ignores SIGTERM
	forking  kind = "forking"  // ends, and leaves two behind that ignore SIGTERM: one in its group, one orphaned in a session of its own
	foreign  kind = "foreign"  // becomes root's, by a file that is setuid, and ignores SIGTERM
)

// beat is the time from one sign of life to the next.
const beat = 3 * time.Millisecond

// sharedNow reads a clock that all processes share.
func sharedNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has it
	}
	return ts.Nano()
}

// actAsProgram runs as the program if the environment says so, and reports
// whether it does.
func actAsProgram() bool {
	k, part := kind(os.Getenv(kindVariable)), os.Getenv(partVariable)
	if k == "" {
		return false
	}
	switch part {
	case "middle": // ends at once: its child becomes an orphan
		startPart("orphan", true)
		return true
	case "": // the program itself
		part = "main"
		if k == foreign {
			if err := syscall.Setuid(0); err != nil {
				fmt.Fprintln(os.Stderr, "setuid:", err)
				return true
			}
		}
		if k == forking {
			startPart("helper", false)
			startPart("middle", true)
		}
	}
	live(k, part)
	return true
}

func startPart(part string, ownSession bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVariable+"="+part)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// live writes signs of life until it is to end.
func live(k kind, part string) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM)
	log, err := os.OpenFile(os.Getenv(logVariable), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	sign := func() {
		// One write for each line, which O_APPEND keeps whole. What counts is
		// when the clock was read: then the process ran.
		fmt.Fprintf(log, "%d %s %s %d %s %s\n", sharedNow(), os.Getenv("LEADER_TERM"), os.Getenv("LEADER_ID"), os.Getpid(), k, part)
	}
	ticks := time.NewTicker(beat)
	var end <-chan time.Time
	for {
		sign()
		select {
		case <-ticks.C:
		case <-end:
			sign()
			return
		case <-signals:
			if k == plain || k == forking && part == "main" {
				end = time.After(20 * time.Millisecond)
			}
		}
	}
}

// An observation is one sign of life.
type observation struct {
	at   int64
	term uint64
	id   string
	pid  int
	kind kind
	part string
}

func parseObservation(line string) (s observation, err error) {
	f := strings.Fields(line)
	if len(f) != 6 {
		return s, fmt.Errorf("%d fields in %q", len(f), line)
	}
	s.id, s.kind, s.part = f[2], kind(f[4]), f[5]
	if s.at, err = strconv.ParseInt(f[0], 10, 64); err == nil {
		s.term, err = strconv.ParseUint(f[1], 10, 64)
	}
	if err == nil {
		s.pid, err = strconv.Atoi(f[3])
	}
	return s, err
}
