package consulstore_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/natslab"
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
	path := natslab.NewRelay(t, node.Addr)
	party := elections.NewParty(t, 2*time.Second)
	for _, id := range []string{"a", "b"} {
		party.Join(id, by(t, path.Addr(), ""))
	}
	first, kept := party.Renewed(time.Time{})
	snapshot := node.Save()
	// The one who leads by what is about to be lost is another.
	at := time.Now()
	if err := first.Resign(trial.Within(t)); err != nil {
		t.Fatal(err)
	}
	_, lost := party.Renewed(at)

	path.Cut()
	node.Renew()
	node.Restore(snapshot)
	at = time.Now()
	path.Resume()
	_, term := party.Renewed(at)
	regresses := party.Noted(leader.NoteRegressed)
	t.Logf("restored elsewhere: led and renewed again after %v; term %d at the snapshot, %d after it, %d now; %d notes of a regress",
		time.Since(at).Round(time.Millisecond), kept, lost, term, regresses)
	if regresses == 0 {
		t.Error("nobody noticed")
	}
	if term <= kept {
		t.Error("the term is not later than the snapshot's")
	}
}
