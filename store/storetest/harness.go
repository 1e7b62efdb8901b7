package storetest

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A Factory makes the registers of one subtest, empty and used by nothing else.
// It releases what it took with t.Cleanup. It is called once for each subtest;
// an expensive server may be shared among them, if each gets its own bucket,
// table or prefix. The subtests of a suite run one after the other. Several
// suites may run at once if each has a separate server, since an interruption
// meets all clients of one.
type Factory func(t testing.TB) Harness

// A Harness is a set of registers and the means to act on it from outside.
// Every field but Open may be nil if Caps contains the reason.
type Harness struct {
	// Open returns another client of the same registers, as another process
	// would hold it, with a separate connection where there are connections. It
	// closes the client with t.Cleanup, and fails t if it cannot connect.
	Open func(t testing.TB) store.Store

	// Delete deletes a key as the store's ordinary tools do, without a
	// condition.
	Delete func(key string) error
	// Put overwrites a key as the store's ordinary tools do, without a
	// condition.
	Put func(key string, value []byte) error
	// Purge destroys every trace of a key, as far as an operator can.
	Purge func(key string) error
	// Visible reports whether the store's ordinary tools show the key as
	// existing.
	Visible func(key string) (bool, error)
	// Interrupt breaks the connections of all clients, or restarts the server,
	// and returns when the server can be reached again. Acknowledged data
	// stays.
	Interrupt func() error
}

// Caps lists what a store cannot do, and how it may be asked. The zero value is
// a store that can do everything; each of the reasons is a text for people that
// appears where a claim is skipped, and is empty where the store can.
type Caps struct {
	// NoWatch is why the store does not implement store.Watcher.
	NoWatch string
	// NoDelete is the reason for which Harness.Delete is nil.
	NoDelete string
	// NoPut is the reason for which Harness.Put is nil.
	NoPut string
	// NoPurge is the reason for which Harness.Purge is nil.
	NoPurge string
	// NoVisible is the reason for which Harness.Visible is nil.
	NoVisible string
	// NoInterrupt is the reason for which Harness.Interrupt is nil.
	NoInterrupt string

	// MaxValue is the size in bytes of the largest value that the store takes.
	// 0 means that no limit is known: store.MaxValue is tried then, and nothing
	// larger.
	MaxValue int
	// Patience is how long the suite waits for one call or event. The default
	// is 60 s; a passing run never waits that long, so a slow machine does not
	// fail.
	Patience time.Duration
	// Silence is how long the suite listens for what must not happen, such as a
	// delivery after stop. The default is 50 ms; a longer one finds more and
	// costs time.
	Silence time.Duration
	// TTL is the lease that store.Checker is asked about. The default is 10 s.
	TTL time.Duration
}

func (c Caps) withDefaults() Caps {
	c.MaxValue = max(c.MaxValue, 0)
	if c.Patience <= 0 {
		c.Patience = time.Minute
	}
	if c.Silence <= 0 {
		c.Silence = 50 * time.Millisecond
	}
	if c.TTL <= 0 {
		c.TTL = 10 * time.Second
	}
	return c
}

// A claim is something that the contract promises, and the way to examine it.
type claim struct {
	name    string
	needs   need
	examine func(*exam)
}

// A need is a set of things that a claim cannot be examined without.
type need uint8

const (
	watching need = 1 << iota
	deleting
	putting
	purging
	seeing
	interrupting

	// async is not required: the claim is also examined for asynchronous
	// writes.
	async
)

// skipUnable skips the claim if caps gives a reason why one of its needs is
// missing.
func skipUnable(t *testing.T, caps Caps, needs need) {
	t.Helper()
	for n, reason := range map[need]string{
		watching: caps.NoWatch, deleting: caps.NoDelete, putting: caps.NoPut,
		purging: caps.NoPurge, seeing: caps.NoVisible, interrupting: caps.NoInterrupt,
	} {
		if needs&n != 0 && reason != "" {
			t.Skip(reason)
		}
	}
}

// demandHooks fails the claim if a hook is missing and caps gives no reason.
func (x *exam) demandHooks(needs need) {
	x.Helper()
	if x.h.Open == nil {
		x.Fatal("Harness.Open is nil")
	}
	for _, hook := range []struct {
		need need
		set  bool
		name string
	}{
		{deleting, x.h.Delete != nil, "Delete"},
		{putting, x.h.Put != nil, "Put"},
		{purging, x.h.Purge != nil, "Purge"},
		{seeing, x.h.Visible != nil, "Visible"},
		{interrupting, x.h.Interrupt != nil, "Interrupt"},
	} {
		if needs&hook.need != 0 && !hook.set {
			x.Fatalf("Harness.%[1]s is nil: provide it, or state in Caps.No%[1]s why the store has none", hook.name)
		}
	}
}
