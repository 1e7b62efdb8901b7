package pgstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

func TestAnElectionOutlivesItsServer(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t, lazy...)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	trial.Outlive(t, time.Second, trial.NewWays(t, 3, srv.Addr()),
		func(addr string) store.Store { return open(t, srv.URL("lab", addr), table) },
		trial.Harms("the server", srv)...)
}

// A standby takes the place of a primary whose commits wait for it.
func TestAnElectionOutlivesFailoversOfASynchronousPair(t *testing.T) {
	t.Parallel()
	p := newSynchronousPair(t)
	table := newTable()
	made(t, p.primary.DSN("lab"), table)
	ways := trial.NewWays(t, 3, p.primary.Addr())
	failover := trial.Harm{Name: "failover", Happen: func(*trial.Party) {
		p.failOver(rand.New(rand.NewPCG(rand.Uint64(), 0)), ways)
	}}
	trial.Outlive(t, time.Second, ways,
		func(addr string) store.Store { return open(t, p.primary.URL("lab", addr), table) },
		failover,
		trial.Lasting("the primary is frozen until nobody leads", func() { p.primary.Freeze() }, func() { p.primary.Thaw() }),
		trial.Lasting("the standby is frozen until nobody leads", func() { p.standby.Freeze() }, func() { p.standby.Thaw() }),
		failover,
	)
}
