package engine

import (
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

// The names are API, and so constants, which cannot be made of the core's.
func TestTheNotesOfTheCoreHaveItsNames(t *testing.T) {
	names := []string{NoteResolved, NoteStale, NoteRegressed, NoteLostRace, NoteFailed, NoteOverrun, NoteGaveUp}
	for k, name := range names {
		if got := machine.NoteKind(k).String(); got != name {
			t.Errorf("the core's note %d is %q, and ours is %q", k, got, name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("the core has more kinds of notes than have constants here")
		}
	}()
	_ = machine.NoteKind(len(names)).String()
}
