//go:build unix

package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
)

// shares returns how many roles each copy leads, by the latest term of each
// role.
func shares(lines []lab.Line) (each map[string]int) {
	latest := make(map[string]lab.Line)
	for _, l := range lines {
		if l.Term > latest[l.Role()].Term {
			latest[l.Role()] = l
		}
	}
	each = make(map[string]int)
	for _, l := range latest {
		each[l.ID]++
	}
	return each
}

func awaitShares(crew *lab.Crew, what string, want ...int) (each map[string]int) {
	crew.AwaitLines(what, func(lines []lab.Line) bool {
		each = shares(lines)
		return slices.Equal(slices.Sorted(maps.Values(each)), want)
	})
	return each
}

func TestRolesAreSpreadAndEachIsWorkedForByOneCopy(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s", "-roles", "6")
	crew.Start("a")
	awaitShares(crew, "all roles in one hand", 6)
	crew.Start("b")
	awaitShares(crew, "half of the roles for each", 3, 3)
	crew.Start("c")
	each := awaitShares(crew, "a third of the roles for each", 2, 2, 2)

	crew.Process(slices.Sorted(maps.Keys(each))[0]).Kill()
	each = awaitShares(crew, "the roles of the one that was killed", 3, 3)

	crew.Process(slices.Sorted(maps.Keys(each))[0]).Terminate()
	awaitShares(crew, "all roles in one hand again", 6)
	crew.TerminateAll()
	crew.CheckOneAtATime()
}
