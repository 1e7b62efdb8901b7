package consulstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/consullab"
)

// A snapshot that is restored into other servers than those it is of takes back
// what was written since, and they give indexes again. Candidates that saw what
// was lost notice, and cool down.
//
// They are cut off until the snapshot is restored: who has waited for long
// enough would lead by the empty server, in a term of before.
func TestASnapshotRestoredElsewhereIsARegress(t *testing.T) {
	t.Parallel()
	node := consullab.Start(t, 1).Nodes[0]
	path := natslab.NewProxy(t, node.Addr)
	const ttl = 2 * time.Second
	watch := lookout.Keep(t)
	var regresses atomic.Int64
	join := func(id string) leader.Election {
		e, err := leader.NewElectionWithStore(open(t, consullab.Client(t, path.Addr(), consullab.Root), consulstore.Options{}), leader.ElectionConfig{
			Group: "g", InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 4,
			Hooks: leader.Hooks{Note: func(n leader.Note) {
				if n.Kind == leader.NoteRegressed {
					regresses.Add(1)
				}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		watch.Add(id, e)
		if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), natslab.Patience)
			defer cancel()
			_ = e.StopWithContext(ctx, leader.StopOptions{WaitForDemote: true}) // its server may be gone
		})
		return e
	}
	a, b := join("a"), join("b")
	all := []leader.Election{a, b}
	leads := func(since time.Time) (by leader.Election, term uint64) {
		natslab.Eventually(t, "a candidate leads and has renewed", func(context.Context) error {
			for _, e := range all {
				if st := e.Status(); st.IsLeader && st.LastHeartbeat.After(since) {
					by, term = e, st.Term
					return nil
				}
			}
			return errors.New("nobody")
		})
		return by, term
	}
	first, kept := leads(time.Time{})
	snapshot, _, err := node.Client(t).Snapshot().Save(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Close() }()
	// The one who leads by what is about to be lost is another.
	at := time.Now()
	if err := first.Resign(trial.Within(t)); err != nil {
		t.Fatal(err)
	}
	_, lost := leads(at)

	path.Cut()
	node.Renew()
	if err := node.Client(t).Snapshot().Restore(nil, snapshot); err != nil {
		t.Fatal(err)
	}
	at = time.Now()
	path.Resume()
	_, term := leads(at)
	t.Logf("restored elsewhere: led and renewed again after %v; term %d at the snapshot, %d after it, %d now; %d notes of a regress",
		time.Since(at).Round(time.Millisecond), kept, lost, term, regresses.Load())
	if regresses.Load() == 0 {
		t.Error("nobody noticed")
	}
	if term <= kept {
		t.Error("the term is not later than the snapshot's")
	}
}
