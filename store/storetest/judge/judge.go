// Package judge judges an implementation of package store fully, with one call:
//
//	func TestStore(t *testing.T) {
//		judge.Run(t, func(tb testing.TB) judge.Subject {
//			server := startServer(tb) // used by no other test
//			return judge.Subject{
//				Registers: func(tb testing.TB) judge.Registers {
//					table := server.NewTable(tb)
//					return judge.Registers{
//						Harness: storetest.Harness{
//							Open:      func(tb testing.TB) store.Store { return dial(tb, server.Addr(), table) },
//							Delete:    server.Admin(table).Delete,
//							Interrupt: server.DropClients,
//						},
//						At: func(tb testing.TB, addr string) store.Store { return dial(tb, addr, table) },
//					}
//				},
//				Addrs:     []string{server.Addr()},
//				Processes: []judge.Process{judge.ProcessOf("the server", server)},
//			}
//		}, judge.Options{Caps: storetest.Caps{
//			NoPut:   "the server has no unconditional write",
//			NoPurge: "deletion always leaves a tombstone",
//		}})
//	}
//
// Each [Case] is a subtest. A case that needs what the [Subject] lacks is
// skipped, and the output contains the reason: with Registers alone the store is
// judged by the contract, by histories and by elections.
//
// The cases find what a careful reading does not: a client that repeats a write
// by itself, a read and a write that are not one step, a revision that is given
// twice, an outcome that claims too much. Details of one technology, such as
// the words of a server's refusals, remain for separate tests.
//
// The package is a separate module, for porcupine's sake. A store that is to
// need nothing but package store also has its tests in a separate module, or
// calls storetest alone.
package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
)

// A Case is something that a store is judged by, and the name of its subtest.
type Case string

// The cases.
const (
	// Contract is each claim of package store by itself: see package storetest.
	Contract Case = "Contract"
	// Elections are handover, crash, priority, pause, fencing and observers,
	// and never two leaders: see package elections.
	Elections Case = "Elections"
	// Histories are the answers that many clients got while they contended, and
	// whether one order of their writes explains them: see package histories.
	Histories Case = "HistoriesAreLinearizable"
	// LostAnswers are writes that the server applies, and whose answers do not
	// reach the store: they are of unknown outcome, and are sent once.
	LostAnswers Case = "LostAnswersAreUnknownAndWritesSentOnce"
	// Unsent are writes that cannot leave: they have no effect, now or later,
	// and the store reports that.
	Unsent Case = "WritesThatNeverLeftAreTransient"
	// Invalid are keys and values that the store refuses without its server.
	Invalid Case = "InvalidKeysAndValuesAreRefusedWithoutTheServer"
	// Closed are calls of a store that was closed, or whose connection was.
	Closed Case = "ClosedStoresStayClosed"
	// Frozen is a write to a server that does not answer for a while: its
	// outcome is unknown, and it may be applied later.
	Frozen Case = "WritesToAFrozenServerAreUnknown"
	// Kept is what was acknowledged, or read, before a server was killed.
	Kept Case = "AcknowledgedWritesAndReadsSurviveKills"
	// Faults is a history while the servers and the ways to them are harmed.
	Faults Case = "HistoryWithFaultsIsLinearizable"
	// Outlived are elections that find a leader after each harm.
	Outlived Case = "ElectionsOutliveTheirServers"
	// Forgotten is an election whose leader's record is lost: a candidate that
	// starts then leads only after the former leader's lease.
	Forgotten Case = "ALeaderThatIsForgottenHasNoSecondBesideIt"
)

// Options list what a store cannot do, and how it may be asked. The zero value
// is a store that can do everything.
type Options struct {
	// Caps are the contract's. Patience is for all cases.
	storetest.Caps
	// Cases are those that are judged. The default is all of them.
	Cases []Case

	// Histories is how many histories without faults are recorded. The default
	// is 300, which takes some seconds where a write takes a millisecond.
	Histories int
	// Writes is how many writes each of them has at least. The default is 40.
	Writes int
	// Seed decides the order of the histories' calls. Zero draws one; what was
	// drawn is logged.
	Seed uint64
	// StaleConflicts is set if a conflict may be decided by what the store knew
	// before the call, as by a server that does not know yet that others have
	// replaced it. Conflicts are then left out of the order of writes.
	StaleConflicts bool

	// Rounds is how often an election meets each harm. The default is once. A
	// history meets each fault twice as often.
	Rounds int
	// Keys is how many registers a history with faults writes. The default is
	// 3: see [histories.Faulted].
	Keys int
	// Enough returns what a history with faults still lacks: see
	// [histories.Faulted].
	Enough func(histories.Tally) error

	// Lease is the shortest lease of the elections. The default is 600 ms, and
	// 1 s where servers are harmed; a store whose calls take long needs more.
	Lease time.Duration
	// CoolsDown is set if each promotion waits for a lease, since the store's
	// Check reports that it may forget.
	CoolsDown bool
	// LateWritesLand is set if a frozen server executes what it was sent when
	// it goes on, whatever has become of the connection.
	LateWritesLand bool
}

// Run judges the store by each case as a subtest of t, which run at the same
// time. It calls start once for those that leave the server in peace, and once
// for each of the others.
func Run(t *testing.T, start func(tb testing.TB) Subject, opts Options) {
	t.Helper()
	if opts.Patience <= 0 {
		opts.Patience = time.Minute
	}
	cases := slices.DeleteFunc(slices.Clone(methods[:]), func(c method) bool {
		return len(opts.Cases) > 0 && !slices.Contains(opts.Cases, c.name)
	})
	var shared *Subject
	if slices.ContainsFunc(cases, func(c method) bool { return !c.harms }) {
		shared = new(start(t))
	}
	for _, c := range cases {
		t.Run(string(c.name), func(t *testing.T) {
			t.Parallel()
			x := &exam{T: t, opts: opts}
			if shared != nil {
				x.subject = *shared
				x.skipIf(c.lacks)
			}
			if c.harms {
				x.subject = start(t)
				x.skipIf(c.lacks)
			}
			c.judge(x)
		})
	}
}

// A method is how a case is judged.
type method struct {
	name  Case
	harms bool                        // so that it has separate servers
	lacks func(Subject) (what string) // why a subject cannot be judged so; nil if each can
	judge func(*exam)
}

var methods = [...]method{
	{Contract, true, nil, (*exam).contract},
	{Elections, false, nil, (*exam).elections},
	{Histories, false, nil, (*exam).histories},
	{LostAnswers, true, noWay, (*exam).lostAnswers},
	{Unsent, false, noWay, (*exam).unsent},
	{Invalid, false, noWay, (*exam).invalid},
	{Closed, false, nil, (*exam).closed},
	{Frozen, true, nothingFreezes, (*exam).frozen},
	{Kept, true, nothingDurable, (*exam).kept},
	{Faults, true, nil, (*exam).faults},
	{Outlived, true, nothingHarms, (*exam).outlived},
	{Forgotten, true, nothingForgets, (*exam).forgotten},
}

func (x *exam) skipIf(lacks func(Subject) string) {
	if lacks == nil {
		return
	}
	if what := lacks(x.subject); what != "" {
		x.Skip(what)
	}
}

func noWay(s Subject) string {
	if len(s.Addrs) == 0 {
		return "Subject.Addrs is empty: there is no way to a server that could be spoiled"
	}
	return ""
}

func nothingFreezes(s Subject) string {
	if _, ok := s.process(freezable); !ok && len(s.Addrs) == 0 {
		return "none of Subject.Processes freezes, and Subject.Addrs is empty"
	}
	return ""
}

func nothingDurable(s Subject) string {
	if _, ok := s.process(durable); !ok {
		return "none of Subject.Processes can be killed and keeps what it acknowledged"
	}
	return ""
}

func nothingHarms(s Subject) string {
	if len(s.Processes) == 0 && len(s.Addrs) == 0 && s.FailOver == nil {
		return "Subject has neither Processes nor Addrs, nor FailOver: nothing can be harmed"
	}
	return ""
}

func nothingForgets(s Subject) string {
	if _, ok := s.process(forgetful); !ok || len(s.Addrs) == 0 {
		return "none of Subject.Processes forgets, or Subject.Addrs is empty"
	}
	return ""
}

func (x *exam) contract() {
	storetest.Run(x.T, func(tb testing.TB) storetest.Harness { return x.subject.Registers(tb).Harness }, x.opts.Caps)
}

func (x *exam) elections() {
	h := x.registers()
	elections.Run(x.T, elections.Harness{Open: h.Open, Delete: h.Delete, TTL: x.opts.Lease, CoolsDown: x.opts.CoolsDown})
}
