package read

import (
	"slices"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// hides returns a function that reports whether a list leaves a group out: the
// group is marked as gone permanently, and requested neither by its name nor
// with --all.
func hides(pattern string, all bool) func(leader.LeaderInfo) bool {
	named := !store.Wild(pattern)
	return func(info leader.LeaderInfo) bool {
		return info.ID == "" && info.Reason == leader.ReasonForgotten && !all && !(named && info.Group == pattern)
	}
}

// shown returns the groups without those that are hidden.
func (c ListCommand) shown(groups []Group) []Group {
	hidden := hides(c.Pattern, c.All)
	return slices.DeleteFunc(groups, func(g Group) bool {
		return hidden(leader.LeaderInfo{Group: g.Group, ID: g.Leader, Reason: g.Reason})
	})
}
