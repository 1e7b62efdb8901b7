package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

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
			p := elections.NewParty(t, time.Second)
			a := p.Join("a", open(t, cluster.Client(t), etcdstore.Options{}))
			_, first := p.Renewed(time.Time{})
			b := p.Join("b", open(t, cluster.Client(t), etcdstore.Options{}))
			snapshot := cluster.Nodes[0].Snapshot()
			// A handover, so that somebody else leads by what is about to be
			// lost.
			if err := a.Resign(trial.Within(t)); err != nil {
				t.Fatal(err)
			}
			var lost uint64
			natslab.Eventually(t, "b leads", func(context.Context) error {
				st := b.Status()
				lost = st.Term
				if !st.IsLeader {
					return errors.New(st.State)
				}
				return nil
			})
			cluster.Kill() // by now, or b may have renewed in between
			at := time.Now()
			cluster.Restore(snapshot, bump...)
			_, term := p.Renewed(at)
			t.Logf("restored: led and renewed again after %v; term %d at the snapshot, %d after it, %d now; %d notes of a regress",
				time.Since(at).Round(time.Millisecond), first, lost, term, p.Noted(leader.NoteRegressed))
			switch {
			case bump == nil && p.Noted(leader.NoteRegressed) == 0:
				t.Error("nobody noticed")
			case bump != nil && term <= lost:
				t.Error("the term has gone back, though the revisions were raised")
			case term <= first:
				t.Error("the term is not later than the snapshot's")
			}
		})
	}
}
