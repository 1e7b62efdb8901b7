package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A synchronousPair is a primary and a standby that has what the primary
// acknowledges.
type synchronousPair struct {
	t                *testing.T
	primary, standby *databases.Server
	link             *natslab.Proxy // between them
}

func newSynchronousPair(t *testing.T) *synchronousPair {
	t.Helper()
	p := &synchronousPair{t: t, primary: lab.OwnPostgreSQL(t, "wal_sender_timeout=60s")}
	p.link = natslab.NewProxy(t, p.primary.Addr())
	p.join()
	return p
}

// join gives the primary a standby, and then has it wait for that.
func (p *synchronousPair) join() {
	p.t.Helper()
	host, port, _ := strings.Cut(p.link.Addr(), ":")
	p.standby = p.primary.Standby("s1", fmt.Sprintf("primary_conninfo=host=%s port=%s user=lab application_name=s1", host, port))
	p.primary.Exec("ALTER SYSTEM SET synchronous_standby_names = s1", "SELECT pg_reload_conf()")
	trial.Await(p.t, "the standby is synchronous", func() (is bool) {
		err := p.primary.DB().QueryRowContext(trial.Within(p.t), "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&is)
		return err == nil && is
	})
}

// failOver ends the primary, puts the standby in its place, and has another
// join.
func (p *synchronousPair) failOver(r *rand.Rand, ways trial.Ways) {
	p.t.Helper()
	trial.Part(r, p.link)
	p.primary.Kill()
	p.standby.Promote()
	p.primary = p.standby
	ways.Lead(p.primary.Addr())
	trial.Rejoin(p.link, p.primary.Addr())
	p.join()
}

// No acknowledged write is lost, and none that was read.
func TestAHistoryWithFailoversOfASynchronousPairIsLinearizable(t *testing.T) {
	t.Parallel()
	p := newSynchronousPair(t)
	table := newTable()
	made(t, p.primary.DSN("lab"), table)
	ways := trial.NewWays(t, 4, p.primary.Addr())
	spoiled := ways[:len(ways)-1]
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: ways.Stores(func(addr string) store.Store { return open(t, p.primary.URL("lab", addr), table) }),
		Keys:   8,
		Rounds: 2,
		Faults: append(trial.Spoil(spoiled...), []trial.Fault{
			{Name: "failover", Happen: func(r *rand.Rand) { p.failOver(r, ways) }},
			{Name: "the primary is frozen", Happen: func(r *rand.Rand) { p.primary.Freeze(); trial.Last(r, 600); p.primary.Thaw() }},
			{Name: "the standby is frozen", Happen: func(r *rand.Rand) { p.standby.Freeze(); trial.Last(r, 600); p.standby.Thaw() }},
		}...),
	})
}
