//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
)

func doing(verb string) func(lab.Line) bool {
	return func(l lab.Line) bool { return strings.HasPrefix(l.Text, verb+" ") }
}

func TestNoSlotIsRunTwiceAlthoughLeadersStallAndDie(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	l, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s", "-every", "1s", "-work", "500ms", "-db", path)
	for _, id := range []string{"a", "b", "c"} {
		crew.Start(id)
	}
	crew.Await("a run", doing("ran"))

	refused := stallUntilRefused(t, crew)

	last := crew.Await("a run after the stall", func(l lab.Line) bool { return doing("ran")(l) && l.At.After(refused.At) })
	crew.Process(last.ID).Kill()
	crew.Await("a run after the crash", func(l lab.Line) bool { return doing("ran")(l) && l.Term > last.Term })
	crew.TerminateAll()
	if n := l.check(t); n < 3 {
		t.Errorf("%d slots were run", n)
	}
}

// stallUntilRefused stops leaders in the midst of their work, until one of
// them, continued after another has taken over, is seen to be refused by the
// database. A stall may come at another moment than intended: on a slow machine
// the signal is late.
func stallUntilRefused(t *testing.T, crew *lab.Crew) (refused lab.Line) {
	t.Helper()
	for range 10 {
		from := time.Now()
		busy := crew.Await("a run under way", func(l lab.Line) bool { return doing("prepares")(l) && l.At.After(from) })
		taken := func(l lab.Line) bool { return doing("ran")(l) && l.Term > busy.Term }
		stalled := crew.Process(busy.ID)
		stalled.Freeze()
		// It may have been stopped with the database's lock in its hands: then
		// nobody goes on before it does.
		_, ok := crew.AwaitFor(10*time.Second, taken)
		stalled.Thaw()
		if !ok {
			crew.Await("a run by a successor", taken)
		}
		if refused, ok = crew.AwaitFor(2*time.Second, doing("refused")); ok {
			return refused
		}
	}
	t.Fatal("no stale leader tried to run a slot")
	return lab.Line{}
}
