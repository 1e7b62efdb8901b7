package elections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

func first(g *group) {
	a := g.join("a")
	a.leads()
	for i := range 3 {
		g.join(fmt.Sprint("follower", i)).follows(a)
	}
	if s := a.Status(); s.State != leader.StateLeader || s.LeaderID != "a" || s.Token == "" || s.Term == 0 {
		g.Errorf("status of the leader: %+v", s)
	}
	if err := a.ValidateToken(g.within()); err != nil {
		g.Errorf("validating the leader's token: %v", err)
	}
}

func release(g *group) {
	a := g.join("a")
	a.leads()
	b := g.join("b")
	b.follows(a)
	a.stop(leader.StopOptions{DeleteKey: true, WaitForDemote: true})
	b.leads()
	if why := a.lost(); why != leader.ReasonStopped {
		g.Errorf("a lost its term by %q", why)
	}
}

func toAndFro(g *group) {
	a := g.join("a")
	a.leads()
	b := g.join("b")
	b.follows(a)
	turns := 10
	if g.h.CoolsDown {
		turns = 2 // each waits out a lease
	}
	for range turns {
		g.handover(a, b)
		g.handover(b, a)
	}
}

// handover has a resign, and waits until b leads and a knows it.
func (g *group) handover(a, b *member) {
	g.Helper()
	if err := a.Resign(g.within()); err != nil && !errors.Is(err, leader.ErrNotLeader) {
		g.Fatalf("%s resigns: %v", a.id, err)
	}
	b.leads()
	a.follows(b)
}

func silent(g *group) {
	a := g.join("a", ttl(g.h.short()))
	a.leads()
	b := g.join("b", ttl(g.h.short()))
	g.begins(a, b)
	before := a.Term()
	a.link.sever()
	b.leads()
	if a.IsLeader() {
		g.Error("a still leads")
	}
	if !b.Term().Supersedes(before) {
		g.Errorf("term %v after %v", b.Term(), before)
	}
	a.link.restore()
	g.await("one leads and the other follows", func() bool { return a.leadsBefore(b) || b.leadsBefore(a) })
}

func priority(g *group) {
	takes := func(p int) tweak {
		return func(c *leader.ElectionConfig) {
			c.Priority, c.AllowPriorityTakeover, c.MinTenure = p, true, time.Millisecond
		}
	}
	a := g.join("a", takes(1))
	a.leads()
	b := g.join("b", takes(2))
	b.leads()
	a.follows(b)
}

func pause(g *group) {
	a, b := g.join("a"), g.join("b")
	g.await("a leader", func() bool { return a.IsLeader() || b.IsLeader() })
	c := g.control()
	g.obeyed(c.Pause(g.within(), g.name, "maintenance"))
	g.await("nobody leads", func() bool { return !a.IsLeader() && !b.IsLeader() })
	late := g.join("late")
	g.await("late knows of the pause", func() bool { return late.Status().Barred == leader.ReasonPaused })
	g.obeyed(c.Resume(g.within(), g.name))
	g.await("a leader", func() bool { return a.IsLeader() || b.IsLeader() || late.IsLeader() })
}

func steer(g *group) {
	a := g.join("a")
	a.leads()
	b := g.join("b")
	b.follows(a)
	c := g.control()
	g.obeyed(c.StepDown(g.within(), g.name, "try out b"))
	b.leads()
	a.follows(b)
	g.obeyed(c.Transfer(g.within(), g.name, "a", "back"))
	a.leads()
}

func fenced(g *group) {
	resource := fence.NewGate(fence.Mark{})
	a := g.join("a", ttl(g.h.short()))
	a.leads()
	old := a.Term()
	if err := resource.Accept(g.within(), old); err != nil {
		g.Fatalf("the leader's term: %v", err)
	}
	b := g.join("b", ttl(g.h.short()))
	g.begins(a, b)
	a.link.sever()
	b.leads()
	if err := resource.Accept(g.within(), b.Term()); err != nil {
		g.Errorf("the successor's term: %v", err)
	}
	if err := resource.Accept(g.within(), old); err == nil {
		g.Error("the resource takes what the stale leader sends")
	}
}

func observed(g *group) {
	a := g.join("a")
	a.leads()
	st := g.h.Open(g.T)
	infos, err := leader.SnapshotWithStore(g.within(), st, g.name)
	if err != nil || len(infos) != 1 || infos[0].ID != "a" || infos[0].Term != a.Status().Term {
		g.Fatalf("a snapshot shows %+v, %v", infos, err)
	}
	b := g.join("b")
	b.follows(a)
	g.handover(a, b)
	pattern := g.name
	if _, ok := st.(store.PatternWatcher); ok {
		pattern = ">"
	}
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	for info, err := range leader.ObserveWithStore(ctx, st, pattern) {
		if err != nil {
			g.Fatalf("observing: %v", err)
		}
		if info.Group == g.name && info.ID == "b" {
			return
		}
	}
	g.Error("the observation ended before it showed b")
}

func deleted(g *group) {
	if g.h.Delete == nil {
		g.Skip("the harness cannot delete")
	}
	a := g.join("a", ttl(g.h.short()))
	a.leads()
	b := g.join("b", ttl(g.h.short()))
	g.begins(a, b)
	before := a.Term()
	if err := g.h.Delete(g.name); err != nil {
		g.Fatal(err)
	}
	g.await("a later term", func() bool {
		for _, m := range []*member{a, b} {
			if m.IsLeader() && m.Term().Supersedes(before) {
				return true
			}
		}
		return false
	})
}

func (g *group) control() *leader.Control {
	g.Helper()
	c, err := leader.NewControlWithStore(g.h.Open(g.T), "operator")
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(c.Close)
	return c
}

// obeyed takes what a Control's request came to.
func (g *group) obeyed(_ leader.Handover, err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// within returns a context that is done when a call has taken too long.
func (g *group) within() context.Context {
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	g.Cleanup(cancel)
	return ctx
}
