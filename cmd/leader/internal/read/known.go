package read

import (
	"context"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
)

// Learn adds to a board what the records of its groups do not contain, or by
// the leader's clock alone: since when, why, and how old the latest renewal is.
// A record that is found is like any other, even if its leader died an hour
// ago.
func Learn(ctx context.Context, s *app.Session, pattern string, b *board.Board) {
	now := time.Now()
	var groups []Group
	var findings []board.Finding
	for _, g := range b.Since(0).Changed {
		if g.ID != "" || g.Reason != leader.ReasonAbsent { // nobody knows more of a group without a record
			groups = append(groups, groupOf(g.LeaderInfo, now))
		}
	}
	asked := slices.Clone(groups)
	newDetails(s).complete(ctx, pattern, groups)
	for i, g := range groups {
		findings = append(findings, board.Finding{
			Group: g.Group, Term: g.Term, Since: g.Since, Renewed: g.Renewed, Own: !g.Stored, Until: g.info.Until,
			Dead: asked[i].Leader != "" && g.Leader == "", Last: g.Last, Came: board.Cause{Reason: g.Reason, By: g.By, Why: g.Why},
		})
	}
	b.Learn(findings)
}

// groupOn returns a group of a board as it is printed.
func groupOn(b board.Group, now time.Time) Group {
	g := groupOf(b.LeaderInfo, now)
	if b.ID == "" {
		g.Last = b.Last
	} else {
		g.Reason, g.By, g.Why = b.Came.Reason, b.Came.By, b.Came.Why
	}
	g.Paused, g.PausedBy, g.PausedWhy = b.Paused, b.PausedBy, b.PauseWhy
	if !b.Renewed.IsZero() { // by the store's clock
		g.Renewed, g.Stored = b.Renewed.UTC(), !b.Own
	}
	return g.since(b.Since()).since(began(b.LeaderInfo))
}
