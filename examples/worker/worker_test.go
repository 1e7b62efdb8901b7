//go:build unix

package main

import (
	"testing"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
)

func TestWorkMovesToAnotherCopy(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s")
	for _, id := range []string{"a", "b", "c"} {
		crew.Start(id)
	}
	first := crew.AwaitAct(0)

	crew.Process(first.ID).Kill()
	second := crew.AwaitAct(first.Term)

	frozen := crew.Process(second.ID)
	frozen.Freeze()
	third := crew.AwaitAct(second.Term)
	frozen.Thaw()

	crew.Process(third.ID).Terminate()
	crew.AwaitAct(third.Term) // by the one that was frozen, the only one left
	crew.TerminateAll()
	crew.CheckOneAtATime()
}

func TestDevNeedsNoServer(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", "nats://"+lab.FreeAddress(t))
	host := crew.Start("host", "-dev")
	crew.AwaitAct(0)
	host.Terminate()
}
