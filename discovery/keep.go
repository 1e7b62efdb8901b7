package discovery

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// Keep keeps the leader's entry in one system: see the package documentation
// for what it guarantees. Run one call of Keep for each candidate of the group,
// on an election that has been started or is about to be.
//
// It returns when ctx is done or the election has ended, after it has withdrawn
// what it announced, which takes Options.Timeout at most. The error is the
// election's own ([leader.Election].Err) if the election ended by itself. An
// invalid configuration is returned at once, as an error that matches
// leader.ErrInvalidConfig. Programs that use leader.Run get hold of the
// election by Hooks.PerElection.
//
// A program that ends should wait for Keep to return. Otherwise its last entry
// is left to the others.
func Keep(ctx context.Context, e leader.Election, a Announcer, opts Options) error {
	if err := opts.validate(e, a); err != nil {
		return err
	}
	k := newKeeper(a, opts)
	c := &candidate{keeper: k, election: e}
	k.witness = c
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var observing sync.WaitGroup
	observing.Go(func() {
		defer close(ended)
		c.observe(running)
	})
	k.run(running, ended)
	cancel()
	observing.Wait()
	k.leave(ctx)
	return e.Err()
}

// A candidate is the witness of Keep: it announces its own terms.
type candidate struct {
	*keeper

	election leader.Election
	info     leader.LeaderInfo // who leads, as the election knows; mu guards it

	seen    leader.LeaderInfo
	rested  time.Time // when the news are settled: view.settled
	length  time.Duration
	spans   [2]time.Duration // see measure
	renewed time.Time        // the renewal that spans[1] is of
	of      uint64           // its term
}

// observe notes who leads, until the election ends.
func (c *candidate) observe(ctx context.Context) {
	for info := range c.election.Observe(ctx) {
		c.mu.Lock()
		c.info = info
		c.hear(Entry{Instance: info.ID, Term: info.Term})
		c.mu.Unlock()
	}
}

// view implements witness.
func (c *candidate) view() view {
	c.mu.Lock()
	info := c.info
	c.mu.Unlock()
	s := c.election.Status()
	v := view{until: s.TrustUntil, leads: s.IsLeader && info.ID != "" && info.Term == s.Term, left: info.ID == "" && info.Reason.Asked()}
	if v.leads {
		c.measure(s)
	} else if info.Term != c.seen.Term || info.ID != c.seen.ID {
		c.seen, c.rested = info, time.Now().Add(settle/2+rand.N(settle/2))
	}
	v.window, v.settled = c.length, c.rested
	v.Entry = Entry{
		Group: info.Group, Instance: info.ID, Term: info.Term, Correlation: info.Correlation,
		Address: info.Address, Meta: info.Meta, TTL: c.length / 2,
	}
	return v
}

// measure records the length of the trust window: the shortest seen of this
// renewal and of the one before. The two ends may belong to different renewals,
// and are then too far apart. If a suspension shortens one window, later
// windows are unaffected.
func (c *candidate) measure(s leader.ElectionStatus) {
	window := s.TrustUntil.Sub(s.LastHeartbeat)
	switch {
	case c.of != s.Term:
		c.of, c.renewed, c.spans = s.Term, s.LastHeartbeat, [2]time.Duration{window, window}
	case !c.renewed.Equal(s.LastHeartbeat):
		c.renewed, c.spans = s.LastHeartbeat, [2]time.Duration{c.spans[1], window}
	default:
		c.spans[1] = min(c.spans[1], window)
	}
	c.length = min(c.spans[0], c.spans[1])
}

// silent implements witness. The leader has fallen silent, or we are cut off
// and it is not.
func (c *candidate) silent(context.Context, view) (yes bool, again time.Duration, err error) {
	s := c.election.Status()
	return s.ConnectionStatus == "CONNECTED" && (s.LastError == nil || time.Since(s.LastErrorAt) > trouble), trouble / 2, nil
}

// confirms implements witness.
func (c *candidate) confirms(ctx context.Context) bool { return c.election.ValidateToken(ctx) == nil }

// returns implements witness: nobody else withdraws the entry of a leader that
// knows that it leads.
func (c *candidate) returns(time.Time) bool { return true }
