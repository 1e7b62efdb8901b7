package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A synchronousPair is a primary and a standby that has what the primary
// acknowledges.
type synchronousPair struct {
	tb               testing.TB
	primary, standby *databases.Server
	link             *natslab.Relay // between them
}

func newSynchronousPair(tb testing.TB) *synchronousPair {
	tb.Helper()
	p := &synchronousPair{tb: tb, primary: lab.OwnPostgreSQL(tb, "wal_sender_timeout=60s")}
	p.link = natslab.NewRelay(tb, p.primary.Addr())
	p.join()
	return p
}

// join gives the primary a standby, and then has it wait for that.
func (p *synchronousPair) join() {
	p.tb.Helper()
	host, port, _ := strings.Cut(p.link.Addr(), ":")
	p.standby = p.primary.Standby("s1", fmt.Sprintf("primary_conninfo=host=%s port=%s user=lab application_name=s1", host, port))
	p.primary.Exec("ALTER SYSTEM SET synchronous_standby_names = s1", "SELECT pg_reload_conf()")
	trial.Await(p.tb, "the standby is synchronous", func() (is bool) {
		err := p.primary.DB().QueryRowContext(trial.Within(p.tb), "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&is)
		return err == nil && is
	})
}

// failOver ends the primary, puts the standby in its place, and has another
// join.
func (p *synchronousPair) failOver(r *rand.Rand, lead func(addr string)) {
	p.tb.Helper()
	trial.Part(r, p.link)
	p.primary.Kill()
	p.standby.Promote()
	p.primary = p.standby
	lead(p.primary.Addr())
	trial.Rejoin(p.link, p.primary.Addr())
	p.join()
}
