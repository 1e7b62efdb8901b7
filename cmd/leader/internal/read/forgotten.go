package read

import (
	"slices"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// hides reports whether a group is left out: it is marked as gone for good, and
// is neither asked for by its name nor with --all.
func (c ListCommand) hides(group, leads string, why leader.Reason) bool {
	forgotten := leads == "" && why == leader.ReasonForgotten
	return forgotten && !c.All && (store.Wild(c.Pattern) || c.Pattern != group)
}

// shown returns the groups without those that are hidden.
func (c ListCommand) shown(groups []Group) []Group {
	return slices.DeleteFunc(groups, func(g Group) bool { return c.hides(g.Group, g.Leader, g.Reason) })
}
