//go:build unix

package main

import (
	"fmt"
	"testing"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
)

// answered waits until the client has an answer of a term after the given one.
func answered(crew *lab.Crew, after uint64) (by string, term uint64) {
	crew.Await(fmt.Sprintf("an answer after term %d", after), func(l lab.Line) bool {
		var n int
		if _, err := fmt.Sscanf(l.Text, "was answered: %s counts %d in term %d", &by, &n, &term); err != nil {
			return false
		}
		return term > after
	})
	return by, term
}

func TestTheClientIsAnsweredByTheNextLeader(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s")
	for _, id := range []string{"a", "b", "c"} {
		crew.Start(id, "-listen", lab.FreeAddress(t))
	}
	crew.Start("client", "-call")
	first, term := answered(crew, 0)
	crew.Process(first).Kill()
	second, term := answered(crew, term)
	frozen := crew.Process(second)
	frozen.Freeze()
	if third, _ := answered(crew, term); third == second || third == first {
		t.Errorf("%s answered, which is stopped", third)
	}
	frozen.Thaw()
}
