package etcdstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/etcdstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/etcdlab"
)

func TestElections(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	admin := cluster.Client(t)
	elections.Run(t, elections.Harness{
		Open: func(tb testing.TB) store.Store { return open(tb, cluster.Client(tb), etcdstore.Options{}) },
		Delete: func(key string) error {
			_, err := admin.Delete(trial.Within(t), etcdstore.DefaultPrefix+key)
			return err
		},
	})
}

// A party is the candidates of one group, under watch for two leaders at one
// instant.
type party struct {
	t       *testing.T
	lookout *lookout.Lookout
	members []leader.Election

	mu    sync.Mutex
	notes []string // the kinds
}

func newParty(t *testing.T) *party {
	t.Helper()
	return &party{t: t, lookout: lookout.Keep(t)}
}

// join starts a candidate.
func (p *party) join(id string, client *clientv3.Client, ttl time.Duration) leader.Election {
	p.t.Helper()
	e, err := leader.NewElectionWithStore(open(p.t, client, etcdstore.Options{}), leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 4, Hooks: leader.Hooks{Note: p.note},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.lookout.Add(id, e)
	p.members = append(p.members, e)
	if err := e.Start(context.WithoutCancel(p.t.Context())); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), natslab.Patience)
		defer cancel()
		_ = e.StopWithContext(ctx, leader.StopOptions{WaitForDemote: true}) // its server may be gone
	})
	return e
}

func (p *party) note(n leader.Note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, n.Kind)
}

// noted is how many notes of the kind there were.
func (p *party) noted(kind string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.notes {
		if k == kind {
			n++
		}
	}
	return n
}

// renewed waits until a candidate leads by a renewal that left after the
// instant, and returns it and its term.
func (p *party) renewed(since time.Time) (by leader.Election, term uint64) {
	p.t.Helper()
	natslab.Eventually(p.t, "a candidate leads and has renewed", func(context.Context) error {
		for _, e := range p.members {
			if st := e.Status(); st.IsLeader && st.LastHeartbeat.After(since) {
				by, term = e, st.Term
				return nil
			}
		}
		return errors.New("nobody")
	})
	return by, term
}

func TestAnElectionOutlivesEtcdsOwnLeaders(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 3)
	p := newParty(t)
	for _, id := range []string{"a", "b", "c"} {
		p.join(id, cluster.Client(t), 2*time.Second)
	}
	_, before := p.renewed(time.Time{})
	for range 3 {
		victim := cluster.Leader()
		killed := time.Now()
		victim.Kill()
		_, term := p.renewed(killed)
		t.Logf("etcd's leader %s killed: led and renewed again after %v, term %d before, %d after",
			victim.Name, time.Since(killed).Round(time.Millisecond), before, term)
		if term < before {
			t.Errorf("term %d after %d", term, before)
		}
		before = term
		cluster.Run()
	}
	frozen := cluster.Leader()
	at := time.Now()
	frozen.Freeze()
	_, term := p.renewed(at)
	t.Logf("etcd's leader %s frozen: led and renewed again after %v, term %d before, %d after",
		frozen.Name, time.Since(at).Round(time.Millisecond), before, term)
	frozen.Thaw()
	if term < before {
		t.Errorf("term %d after %d", term, before)
	}
}

func TestAnElectionOutlivesItsOnlyServer(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	p := newParty(t)
	for _, id := range []string{"a", "b", "c"} {
		p.join(id, cluster.Client(t), time.Second)
	}
	_, before := p.renewed(time.Time{})
	for name, fault := range map[string]func(){
		"killed": func() { cluster.Kill(); cluster.Run() },
		"frozen": func() {
			cluster.Nodes[0].Freeze()
			natslab.Eventually(t, "nobody leads", func(context.Context) error {
				for _, e := range p.members {
					if e.IsLeader() {
						return errors.New("somebody does")
					}
				}
				return nil
			})
			cluster.Nodes[0].Thaw()
		},
	} {
		at := time.Now()
		fault()
		_, term := p.renewed(at)
		t.Logf("%s: led and renewed again after %v, term %d before, %d after", name, time.Since(at).Round(time.Millisecond), before, term)
		if term < before {
			t.Errorf("term %d after %d", term, before)
		}
		before = term
	}
}

// A snapshot that is restored takes back what was written since. Candidates
// that saw it notice, and cool down.
func TestARestoredSnapshotIsARegress(t *testing.T) {
	t.Parallel()
	for name, bump := range map[string][]string{
		"AsItWas":                nil,
		"WithItsRevisionsRaised": {"--bump-revision", "1000000000", "--mark-compacted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := etcdlab.Start(t, 1)
			p := newParty(t)
			a := p.join("a", cluster.Client(t), time.Second)
			_, first := p.renewed(time.Time{})
			p.join("b", cluster.Client(t), time.Second)
			snapshot := cluster.Nodes[0].Snapshot()
			// A handover, so that somebody else leads by what is about to be
			// lost.
			if err := a.Resign(trial.Within(t)); err != nil {
				t.Fatal(err)
			}
			var lost uint64
			natslab.Eventually(t, "b leads", func(context.Context) error {
				st := p.members[1].Status()
				lost = st.Term
				if !st.IsLeader {
					return errors.New(st.State)
				}
				return nil
			})
			cluster.Kill() // by now, or b may have renewed in between
			at := time.Now()
			cluster.Restore(snapshot, bump...)
			_, term := p.renewed(at)
			t.Logf("restored: led and renewed again after %v; term %d at the snapshot, %d after it, %d now; %d notes of a regress",
				time.Since(at).Round(time.Millisecond), first, lost, term, p.noted(leader.NoteRegressed))
			switch {
			case bump == nil && p.noted(leader.NoteRegressed) == 0:
				t.Error("nobody noticed")
			case bump != nil && term <= lost:
				t.Error("the term has gone back, though the revisions were raised")
			case term <= first:
				t.Error("the term is not later than the snapshot's")
			}
		})
	}
}
