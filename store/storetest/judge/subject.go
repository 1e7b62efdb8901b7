package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
)

// A Subject is a store's server, or several, which no other test uses, and what
// a test can do to them. Every field but Registers may be left out: the cases
// that need it are then skipped.
type Subject struct {
	// Registers makes registers that are empty and used by nothing else. It
	// releases what it took with tb.Cleanup.
	Registers func(tb testing.TB) Registers

	// Addrs are host:port of each server that clients may use. The cases put a
	// relay before them, which spoils what passes; clients take them in turn.
	Addrs []string
	// Processes are the servers, and whatever else the registers depend on.
	Processes []Process
	// FailOver ends the server and puts another in its place. It calls lead
	// with the other's host:port before the former can serve again: a client
	// that asked the former would get an outdated answer. The registers keep
	// what was acknowledged. FailOver draws its random parts from r.
	FailOver func(r *rand.Rand, lead func(addr string))
	// Faults are what else may befall the server while it is written to.
	Faults []histories.Fault
}

// Registers are a store's registers on a [Subject].
type Registers struct {
	storetest.Harness

	// At opens a client as Open does, which reaches the server by host:port,
	// such as a relay's. It is needed where there are Addrs.
	At func(tb testing.TB, addr string) store.Store
	// Unreached opens a client without waiting for a connection, whose server
	// is to be at host:port. If it is nil, At does.
	Unreached func(tb testing.TB, addr string) store.Store
	// Writes returns how many writes have reached the server, for whatever key.
	// No other case uses the server meanwhile.
	// If it is nil, the registers alone show that a write was sent once.
	Writes func() int64
	// Lend opens a client that uses a connection of its caller's, as far as the
	// store has a function for that.
	Lend func(tb testing.TB) Loan
}

// A Loan is a store over a connection, or a pool of them, that belongs to the
// store's caller.
type Loan struct {
	// Store is that store.
	Store store.Store
	// Works uses the connection without the store.
	Works func() error
	// End closes the connection permanently. It is nil if nothing does.
	End func() error
}

// A Process is what a test can do to one server. It keeps its address, and
// unless it forgets what is on its disk.
type Process struct {
	// Name is for the report.
	Name string
	// Kill ends the process without a warning, and Run starts it again and
	// returns when it serves. Both are nil, or neither is.
	Kill, Run func()
	// Freeze stops the process, whose sockets take what is sent to it, and Thaw
	// lets it go on. Both are nil, or neither is.
	Freeze, Thaw func()

	// Spare means that others serve on without the process, perhaps after a
	// while.
	Spare bool
	// Forgets means that a restart loses what was acknowledged, and Again that
	// it then gives revisions a second time.
	Forgets, Again bool
}

// A Server is a process that can do all of it.
type Server interface {
	// Kill is [Process.Kill].
	Kill()
	// Run is [Process.Run].
	Run()
	// Freeze is [Process.Freeze].
	Freeze()
	// Thaw is [Process.Thaw].
	Thaw()
}

// ProcessOf returns what a test can do to the server.
func ProcessOf(name string, s Server) Process {
	return Process{Name: name, Kill: s.Kill, Run: s.Run, Freeze: s.Freeze, Thaw: s.Thaw}
}

// restart kills the process, and runs it.
func (p Process) restart() {
	p.Kill()
	p.Run()
}

// process returns the first process that fits.
func (s Subject) process(fits func(Process) bool) (Process, bool) {
	for _, p := range s.Processes {
		if fits(p) {
			return p, true
		}
	}
	return Process{}, false
}

func freezable(p Process) bool { return p.Freeze != nil && !p.Spare }
func durable(p Process) bool   { return p.Kill != nil && !p.Spare && !p.Forgets }
func forgetful(p Process) bool { return p.Kill != nil && !p.Spare && p.Forgets }
