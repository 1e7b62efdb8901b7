//go:build unix

package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/clock"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"
)

// gateVariable names the file that a guard waits at before it reads its orders.
const gateVariable = "TEST_GUARD_GATE"

// TestMain lets this program be the guard that a Parent starts, as leader is
// its own.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "run-guard" {
		os.Exit(m.Run())
	}
	// Opened when somebody opens the other end.
	gate, err := os.Open(os.Getenv(gateVariable))
	if err == nil {
		err = gate.Close()
	}
	if err == nil {
		err = run(os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is run-guard, with the numbers of its pipes.
func run(numbers []string) (err error) {
	var c Command
	if c.Orders, err = strconv.Atoi(numbers[0]); err == nil {
		c.Reports, err = strconv.Atoi(numbers[1])
	}
	if err != nil {
		return err
	}
	return c.Run()
}

// The first order is as large as the program's environment, and a pipe is not.
// On a busy machine the guard takes a while before it reads.
func TestAFirstOrderThatIsReadLateIsReadWhole(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(gateVariable, gate)
	p := Parent{
		Reaper: process.NewReaper(), Clock: clock.New(clock.Now), Window: clock.NewWindow(),
		Limits: Limits{Stop: time.Second, Margin: time.Second}, Passing: make(chan syscall.Signal),
		Say: t.Logf,
	}
	t.Cleanup(p.Reaper.Close)
	// A token in Moved: Follow sends the next order at once, and the guard has
	// not read the first one.
	p.Window.Extend("term", clock.Now()+int64(time.Hour))
	const size = 100_000 // of one variable: the system takes no more than 128 KiB
	value := strings.Repeat("x", size)
	c, err := p.Start("term", Order{
		Path: "/bin/sh", Argv: []string{"sh", "-c", fmt.Sprintf(`test "${#A} ${#B} ${#C}" = "%[1]d %[1]d %[1]d" && exit 7`, size)},
		Env: []string{"A=" + value, "B=" + value, "C=" + value},
	})
	if err != nil {
		t.Fatal(err)
	}
	verdict := make(chan Verdict, 1)
	go func() { verdict <- c.Follow(t.Context()) }()
	go func() {
		if f, err := os.OpenFile(gate, os.O_WRONLY, 0); err == nil {
			_ = f.Close()
		}
	}()
	select {
	case v := <-verdict:
		if v != (Verdict{Code: 7, Ended: true}) {
			t.Errorf("the run ended as %+v", v)
		}
	case <-time.After(patience):
		t.Fatal("the program does not end")
	}
}

// If a program's first process passes signals on, its others are signalled
// once, by the first process. Nothing else ends what it leaves when it ends.
func TestTheFirstProcessIsAskedAloneAndWhatItLeavesIsKilled(t *testing.T) {
	t.Setenv(gateVariable, os.DevNull)
	dir := t.TempDir()
	p := Parent{
		Reaper: process.NewReaper(), Clock: clock.New(clock.Now), Window: clock.NewWindow(), Passing: make(chan syscall.Signal), Say: t.Logf,
		Limits: Limits{Stop: time.Hour, Margin: time.Second}, Ending: Ending{Signal: syscall.SIGUSR1, Alone: true},
	}
	t.Cleanup(p.Reaper.Close)
	p.Window.Extend("term", clock.Now()+3*int64(time.Hour))
	c, err := p.Start("term", Order{Path: "/bin/sh", Env: os.Environ(), Argv: []string{"sh", "-c", `cd "$0"
		trap 'exit 7' USR1
		(trap ': >told' USR1; : >ready; while :; do sleep 0.01; done) &
		until test -e ready; do sleep 0.01; done
		: >up
		wait`, dir}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	verdict := make(chan Verdict, 1)
	go func() { verdict <- c.Follow(ctx) }()
	look, late := time.NewTicker(time.Millisecond), time.After(patience)
	defer look.Stop()
	for up := false; !up; {
		select {
		case <-look.C:
			_, err := os.Stat(filepath.Join(dir, "up"))
			up = err == nil
		case <-late:
			t.Fatal("the program does not run")
		}
	}
	end()
	select {
	case v := <-verdict:
		if v != (Verdict{Code: 7, Ended: true}) {
			t.Errorf("the run ended as %+v", v)
		}
	case <-late:
		t.Fatal("the guard waits for what the first process has left")
	}
	if _, err := os.Stat(filepath.Join(dir, "told")); err == nil {
		t.Error("the signal went to the other process, too")
	}
}

// An operator looks for why a term ended: the system's memory may be full.
func TestKilledGuardIsReportedAsKilled(t *testing.T) {
	t.Setenv(gateVariable, os.DevNull)
	if err := process.Adopt(); err != nil { // as leader run does, to find what is left
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	started := make(chan struct{})
	p := Parent{
		Reaper: process.NewReaper(), Clock: clock.New(clock.Now), Window: clock.NewWindow(), Passing: make(chan syscall.Signal),
		Limits: Limits{Stop: time.Second, Margin: time.Second},
		Say: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			if said = append(said, fmt.Sprintf(format, args...)); len(said) == 1 {
				close(started)
			}
		},
	}
	t.Cleanup(p.Reaper.Close)
	p.Window.Extend("term", clock.Now()+int64(time.Hour))
	c, err := p.Start("term", Order{Path: "/bin/sh", Env: os.Environ(), Argv: []string{"sh", "-c", "sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	verdict := make(chan Verdict, 1)
	go func() { verdict <- c.Follow(t.Context()) }()
	late := time.After(patience)
	select {
	case <-started:
		c.Reaper.Signal(c.guard, syscall.SIGKILL, false)
	case <-late:
		t.Fatal("the program is not started")
	}
	select {
	case v := <-verdict:
		mu.Lock()
		defer mu.Unlock()
		if !v.Broken || !slices.Contains(said, "the guard of sh was ended by killed (9): the term ends, and what is left of the program is killed") {
			t.Errorf("%+v, printed %q", v, said)
		}
	case <-late:
		t.Fatal("the run does not end")
	}
}

// A guard that was stopped for long finds each order whole when it goes on, and
// the latest deadline among them.
func TestOrdersToAStoppedGuardAreKeptWhole(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b := newOutbox(w)
	const renewals = 10_000 // for which a pipe has no room
	for i := range int64(renewals) {
		b.put(Order{Op: opTrust, Until: 1 + i})
	}
	b.put(Order{Op: opSignal, Signal: int(syscall.SIGUSR1)})
	b.put(Order{Op: opTrust, Until: renewals + 1})
	b.put(Order{Op: opStop})
	b.mu.Lock()
	kept := len(b.rest)
	b.mu.Unlock()
	if kept > 3 {
		t.Errorf("%d orders wait, want the latest deadline and two others", kept)
	}
	orders := decodeOrders(json.NewDecoder(r))
	var until int64
	var others []string
	for len(others) < 2 || until <= renewals {
		select {
		case o, ok := <-orders:
			switch {
			case !ok:
				t.Fatalf("the orders end after a deadline %d and %q", until, others)
			case o.Op != opTrust:
				others = append(others, o.Op)
			case o.Until <= until:
				t.Fatalf("until %d after %d", o.Until, until)
			default:
				until = o.Until
			}
		case <-time.After(patience):
			t.Fatalf("no order after a deadline %d and %q", until, others)
		}
	}
	if !slices.Equal(others, []string{opSignal, opStop}) {
		t.Errorf("the other orders: %q", others)
	}
	b.close()
	if o, ok := <-orders; ok {
		t.Errorf("after the last order %+v", o)
	}
}
