package quorumstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// hands explains why a claim on what an operator does to a key is not examined.
const hands = "an operator's tools reach the members and not the quorum"

func TestNATSAndEtcdAndPostgreSQL(t *testing.T) {
	t.Parallel()
	judged(t, mixed)
}

func TestTwoNATSServersAndS3(t *testing.T) {
	t.Parallel()
	judged(t, polled)
}

func judged(t *testing.T, start func(testing.TB) []member) {
	judge.Run(t, func(tb testing.TB) judge.Subject {
		members := start(tb)
		s := judge.Subject{Registers: func(tb testing.TB) judge.Registers { return registers(tb, members) }}
		for _, m := range members {
			s.Processes = append(s.Processes, m.process)
		}
		return s
	}, trial.Flags(judge.Options{
		Caps: storetest.Caps{NoDelete: hands, NoPut: hands, NoPurge: hands, NoVisible: hands},
		// With a member down, others hear of a write when they read the polled
		// member, up to half a heartbeat later.
		Lease: 2 * time.Second,
		// The others spoil the way to one server, or have one that is not spare.
		Cases: []judge.Case{judge.Contract, judge.Elections, judge.Histories, judge.Closed, judge.Faults, judge.Outlived},
	}))
}

func registers(tb testing.TB, members []member) judge.Registers {
	tb.Helper()
	url := place(members)
	first := made(tb, url)
	opened := &trial.Opened{}
	open := func(tb testing.TB) store.Store { return opened.Add(open(tb, url)) }
	if strings.HasSuffix(tb.Name(), "/CounterLosesNoIncrement") || strings.HasSuffix(tb.Name(), "/WatchShowsWhatTheWritersWrote") {
		// The claims do not accept an unknown outcome, which processes that
		// compete without a pause may get. Here they are in one process.
		open = func(testing.TB) store.Store { return first }
	}
	return judge.Registers{Harness: storetest.Harness{
		Open: open,
		Interrupt: func() error {
			for _, m := range members {
				m.process.Kill()
			}
			opened.Noticed()
			for _, m := range members {
				m.process.Run()
			}
			return nil
		},
	}}
}
