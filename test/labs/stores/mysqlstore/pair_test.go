package mysqlstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A pair is a primary, a replica, and the way between them.
type pair struct {
	tb               testing.TB
	primary, replica *databases.Server
	link             *natslab.Relay
	replicas         int // so many there have been
}

func newPair(tb testing.TB, settings ...string) *pair {
	tb.Helper()
	primary := lab.OwnMariaDB(tb, settings...)
	link := natslab.NewRelay(tb, primary.Addr())
	return &pair{tb: tb, primary: primary, link: link, replicas: 1, replica: lab.Replica(tb, primary, link.Addr(), "--rpl-semi-sync-slave-enabled=1")}
}

// newWaitingPair returns a pair whose primary waits so many milliseconds for
// its replica.
func newWaitingPair(tb testing.TB, point string, timeout uint) *pair {
	tb.Helper()
	// The server's own writes at its start must not wait for a replica.
	p := newPair(tb, "--rpl-semi-sync-master-enabled=1", "--rpl-semi-sync-master-wait-point="+point, "--rpl-semi-sync-master-timeout=1")
	p.awaitWaiting(timeout)
	return p
}

// awaitWaiting waits until the replica is waited for, and has the primary wait
// so many milliseconds.
func (p *pair) awaitWaiting(timeout uint) {
	p.tb.Helper()
	db := p.primary.DB()
	trial.Await(p.tb, "the primary waits for its replica", func() bool {
		var name, value string
		err := db.QueryRowContext(trial.Within(p.tb), "SHOW STATUS LIKE 'Rpl_semi_sync_master_status'").Scan(&name, &value)
		return err == nil && value == "ON"
	})
	p.primary.Exec(fmt.Sprintf("SET GLOBAL rpl_semi_sync_master_timeout = %d", timeout))
}

// endless is a timeout that no test reaches.
const endless = 4294967295

// caughtUp waits until the replica has applied all that the primary has.
func (p *pair) caughtUp() { p.replica.Applied(p.primary.Position()) }

// failOver ends the primary, and promotes the replica.
func (p *pair) failOver() {
	p.tb.Helper()
	p.primary.Kill()
	p.replica.Promote()
}

// succeed parts the two for a while, puts the replica in the primary's place,
// and has another join, which is waited for from then on.
func (p *pair) succeed(r *rand.Rand, lead func(addr string)) {
	p.tb.Helper()
	trial.Part(r, p.link)
	p.failOver()
	p.primary = p.replica
	lead(p.primary.Addr())
	trial.Rejoin(p.link, p.primary.Addr())
	p.primary.Exec("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC", "SET GLOBAL rpl_semi_sync_master_timeout = 1",
		"SET GLOBAL rpl_semi_sync_master_enabled = 1")
	p.replicas++
	p.replica = lab.Replica(p.tb, p.primary, p.link.Addr(), fmt.Sprintf("--server-id=%d", 1+p.replicas), "--rpl-semi-sync-slave-enabled=1")
	p.awaitWaiting(endless)
}

// The cost of an asynchronous replica: because of it Check reports that the
// store may forget.
func TestFailoverToAnAsynchronousReplicaForgetsAndIsWarnedOf(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	table := newTable()
	s := made(t, url(p.primary), table)
	r, err := trial.Check(t, s)
	if err != nil || !r.Forgetful || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "1 connected") {
		t.Errorf("a pair without semi-synchronous replication: %+v, %v", r, err)
	}
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("held")})
	p.caughtUp()
	p.link.Hold(natslab.ToClient)
	lost := trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("acknowledged")})
	_, err = open(t, url(p.replica), table).Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Transient, "read-only") // until it is promoted
	p.failOver()
	next := open(t, url(p.replica), table)
	if e := trial.Get(t, next, "a"); e.Revision != rev || string(e.Value) != "held" {
		t.Fatalf("after the failover the register is at %+v; revision %d was acknowledged", e, lost)
	}
	// Terms are revisions: none may have the number of one that was lost.
	if again := trial.Must(t, next, store.Write{Key: "a", Expected: rev, Value: []byte("as well")}); again <= lost {
		t.Errorf("revision %d follows %d, which was acknowledged and lost", again, lost)
	}
}

// TestFailoverToASemiSynchronousReplicaLosesNothing is the same failover, of a
// primary that waits.
func TestFailoverToASemiSynchronousReplicaLosesNothing(t *testing.T) {
	t.Parallel()
	p := newWaitingPair(t, "AFTER_SYNC", endless)
	table := newTable()
	since := time.Now()
	s := made(t, url(p.primary), table)
	trial.FindsNothingWrong(t, s, since)
	var known uint64 // the latest that was acknowledged
	for range 20 {
		known = trial.Must(t, s, store.Write{Key: "a", Expected: known, Value: []byte("held")})
	}
	deleted := trial.Must(t, s, store.Write{Key: "gone", Value: []byte("v"), Tombstone: true})
	p.primary.Exec("DELETE FROM " + table + " WHERE name = 'gone'")
	p.link.Hold(natslab.ToServer, natslab.ToClient)
	err := trial.Unanswered(t, s, store.Write{Key: "a", Expected: known, Value: []byte("doubtful")})
	trial.Outcome(t, err, store.Unknown)
	// The candidate looks whether its write was applied: it must not learn so
	// from a primary that may be replaced by one that never heard of it.
	if e := trial.Get(t, s, "a"); e.Revision != known {
		t.Errorf("what the replica does not have reads as %+v", e)
	}
	p.failOver()
	next := open(t, url(p.replica), table)
	if e := trial.Get(t, next, "a"); e.Revision != known {
		t.Errorf("after the failover the register is at %d; %d was acknowledged", e.Revision, known)
	}
	if again := trial.Must(t, next, store.Write{Key: "gone", Value: []byte("v")}); again <= deleted {
		t.Errorf("revision %d follows %d, which was deleted before the failover", again, deleted)
	}
}

// Semi-synchronous replication by itself is not enough: by its default timeout,
// and its default in MariaDB of when it waits, it is not what it seems.
func TestSemiSynchronousReplicationThatForgetsIsWarnedOf(t *testing.T) {
	t.Parallel()
	warned := func(t *testing.T, s *mysqlstore.Store, word string) {
		t.Helper()
		r, err := trial.Check(t, s)
		if err != nil || !r.Forgetful || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], word) {
			t.Errorf("want a warning of %s: %+v, %v", word, r, err)
		}
	}
	t.Run("it goes on alone after a while", func(t *testing.T) {
		t.Parallel()
		p := newWaitingPair(t, "AFTER_SYNC", 50)
		table := newTable()
		s := made(t, url(p.primary), table)
		warned(t, s, "rpl_semi_sync_master_timeout=50")
		rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("held")})
		p.caughtUp()
		p.link.Hold(natslab.ToServer, natslab.ToClient)
		lost := trial.Must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("acknowledged")})
		if r, err := trial.Check(t, s); err != nil || !strings.Contains(strings.Join(r.Warnings, " "), "waits for no replica now") {
			t.Errorf("once it has gone on alone: %+v, %v", r, err)
		}
		p.failOver()
		if e := trial.Get(t, open(t, url(p.replica), table), "a"); e.Revision != rev {
			t.Errorf("after the failover the register is at %+v; revision %d was acknowledged", e, lost)
		}
	})
	t.Run("it shows what it has not acknowledged", func(t *testing.T) {
		t.Parallel()
		p := newWaitingPair(t, "AFTER_COMMIT", endless)
		table := newTable()
		s := made(t, url(p.primary), table)
		warned(t, s, "rpl_semi_sync_master_wait_point=AFTER_COMMIT")
		rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("held")})
		p.caughtUp()
		p.link.Hold(natslab.ToServer, natslab.ToClient)
		trial.Outcome(t, trial.Unanswered(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("doubtful")}), store.Unknown)
		shown := trial.Get(t, s, "a")
		p.failOver()
		if e := trial.Get(t, open(t, url(p.replica), table), "a"); shown.Revision <= rev || e.Revision != rev {
			t.Errorf("the primary showed %+v, and the promoted replica shows %+v", shown, e)
		}
	})
	t.Run("it does not wait where no replica is", func(t *testing.T) {
		t.Parallel()
		srv := lab.OwnMariaDB(t, "--rpl-semi-sync-master-enabled=1", "--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=1",
			"--rpl-semi-sync-master-wait-no-slave=0")
		s := made(t, url(srv), newTable())
		srv.Exec(fmt.Sprintf("SET GLOBAL rpl_semi_sync_master_timeout = %d", endless))
		r, err := trial.Check(t, s)
		if err != nil || !r.Forgetful || !strings.Contains(strings.Join(r.Warnings, " "), "wait_no_slave=OFF") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// The promoted replica has never received the leader's record. Neither has the
// candidate that starts there, which sees no replica any more.
func TestCoolDownSurvivesAFailoverThatLosesTheLeader(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	table := newTable()
	made(t, url(p.primary), table)
	p.caughtUp()
	elections.FailoverThatForgets(t, elections.Failover{
		Before: func(tb testing.TB) store.Store { return open(tb, url(p.primary), table) },
		After:  func(tb testing.TB) store.Store { return open(tb, url(p.replica), table) },
		Part:   func() { p.link.Hold(natslab.ToServer, natslab.ToClient) },
		Happen: p.failOver,
	})
	r, err := trial.Check(t, open(t, url(p.replica), table))
	if err != nil || !r.Forgetful || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "gtid_slave_pos") {
		t.Errorf("a replica that was promoted: %+v, %v", r, err)
	}
	p.replica.Exec("SET GLOBAL gtid_slave_pos = ''")
	if r, err := trial.Check(t, open(t, url(p.replica), table)); err != nil || r.Forgetful {
		t.Errorf("the same, when a person has seen to it: %+v, %v", r, err)
	}
}
