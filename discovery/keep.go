package discovery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/backoff"
)

const (
	// patrol is how often a candidate that does not lead looks for an entry
	// that should not stand. News of who leads have it look besides.
	patrol = 30 * time.Second
	// settle is how long it leaves that to the next leader, which replaces the
	// entry.
	settle = time.Second
	// trouble is how long after an error of its store it does not take a
	// leader's silence for its end.
	trouble = 10 * time.Second
	// doubtful is for how many times Options.Timeout one that led looks again
	// and again after a write that may yet be applied.
	doubtful = 2
	// patience is for how many trust windows a leader leaves alone an entry of
	// a term that is later than its own.
	patience = 3
)

// Keep keeps the leader's entry in one system: see the package documentation
// for what it guarantees. Run it for each candidate of the group, on an
// election that has been started or is about to be, each with a call of its
// own.
//
// It returns when ctx is done or the election has ended, after it has withdrawn
// what it announced, which takes Options.Timeout at most. The error is that
// of an election which ended by itself ([leader.Election].Err), or matches
// leader.ErrInvalidConfig at once. Programs that use leader.Run get hold of the
// election by Hooks.PerElection.
//
// A program that ends should wait for Keep to return. Otherwise its last entry
// is left to the others.
func Keep(ctx context.Context, e leader.Election, a Announcer, opts Options) error {
	if err := opts.validate(e, a); err != nil {
		return err
	}
	k := &keeper{caller: newCaller(a, opts), election: e, ended: make(chan struct{})}
	running, cancel := context.WithCancel(ctx)
	var observing sync.WaitGroup
	observing.Go(func() { k.observe(running) })
	for delay := k.step(running); k.await(running, k.ended, delay); {
		delay = k.step(running)
	}
	k.unwatch()
	cancel()
	observing.Wait()
	k.leave(ctx)
	return e.Err()
}

// A keeper is one call of Keep. Its goroutine owns all but what mu guards.
type keeper struct {
	caller

	election leader.Election
	ended    chan struct{}     // the election has ended
	info     leader.LeaderInfo // who leads, as the election knows; mu guards it

	window  time.Duration // the length of the trust window: see measure
	spans   [2]time.Duration
	renewed time.Time // the renewal that spans[1] is of
	of      uint64    // its term
	mine    Entry     // what was announced, or may have been, and was not yet withdrawn
	stood   bool      // it was seen to stand
	doubt   time.Time // until when it may yet be applied
	fresh   time.Time // when it was announced or refreshed
	rival   Standing  // what was announced for a later term
	since   time.Time // when it was first seen
	seen    leader.LeaderInfo
	settled time.Time // when to look for what another has left behind
	removed Entry     // what was removed last, of one that had fallen silent
}

// failed takes in a failure, and returns when to try again.
func (k *keeper) failed(what string, e Entry, err error) time.Duration {
	if cancelled(err, func() bool { return k.election.Term().Number != e.Term }) {
		return 0
	}
	return k.caller.failed(what, e, err, k.policy())
}

// observe notes who leads, until the election ends.
func (k *keeper) observe(ctx context.Context) {
	for info := range k.election.Observe(ctx) {
		k.mu.Lock()
		k.info = info
		k.land(info.Term, info.ID != "")
		k.mu.Unlock()
		poke(k.news)
	}
	close(k.ended)
}

func (k *keeper) known() leader.LeaderInfo {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.info
}

// step brings the system in line with the election, as far as one step can, and
// returns when to look again.
func (k *keeper) step(ctx context.Context) time.Duration {
	if want, until, leads := k.wanted(); leads {
		return k.lead(ctx, want, until)
	}
	k.unwatch()
	return k.follow(ctx)
}

// wanted returns the entry that should stand if this candidate leads, and the
// end of its trust window.
func (k *keeper) wanted() (e Entry, until time.Time, leads bool) {
	info, s := k.known(), k.election.Status()
	if !s.IsLeader || info.ID == "" || info.Term != s.Term {
		return Entry{}, time.Time{}, false
	}
	k.measure(s)
	return Entry{
		Group: info.Group, Instance: info.ID, Term: info.Term, Correlation: info.Correlation,
		Address: info.Address, Meta: info.Meta, TTL: k.window / 2,
	}, s.TrustUntil, true
}

// measure takes in the length of the trust window. It is the shortest that was
// seen of this renewal and of the one before: the two ends may be of different
// renewals, and then too far apart. What a suspension takes from one window is
// not taken from later ones.
func (k *keeper) measure(s leader.ElectionStatus) {
	window := s.TrustUntil.Sub(s.LastHeartbeat)
	switch {
	case k.of != s.Term:
		k.of, k.renewed, k.spans = s.Term, s.LastHeartbeat, [2]time.Duration{window, window}
	case !k.renewed.Equal(s.LastHeartbeat):
		k.renewed, k.spans = s.LastHeartbeat, [2]time.Duration{k.spans[1], window}
	default:
		k.spans[1] = min(k.spans[1], window)
	}
	k.window = min(k.spans[0], k.spans[1])
}

// interval is the time from one look of a leader to the next.
func (k *keeper) interval() time.Duration { return k.between(k.window) }

// lead has the entry stand.
func (k *keeper) lead(ctx context.Context, want Entry, until time.Time) time.Duration {
	ctx, done := k.during(ctx, want.Term, until, func() bool { return k.info.ID != "" && k.info.Term == want.Term })
	defer done()
	k.watch(want.Group)
	s, err := k.look(ctx, want.Group)
	if err != nil {
		return k.failed("look", want, err)
	}
	later := s.later(want)
	switch {
	case later && !k.mayDisplace(ctx, s):
		return k.interval()
	case time.Until(until) < want.TTL:
		return k.interval() // not renewed: what is written now may outlast it
	case s.Damaged || !s.Entry.Same(want):
		return k.announce(ctx, want, s, later)
	default:
		k.stands(want)
		return k.refresh(ctx, want, s)
	}
}

// mayDisplace reports whether an entry of a later term is of another history
// than the group's, so that this leader may replace it. That the store
// acknowledges our term after the entry was seen shows that no later term had
// begun then.
func (k *keeper) mayDisplace(ctx context.Context, s Standing) bool {
	now := time.Now()
	if k.since.IsZero() || s.Version != k.rival.Version {
		k.rival, k.since = s, now
		k.tell(Event{Kind: Superseded, Entry: s.last(), Err: ErrSuperseded})
	}
	if now.Sub(k.since) < patience*k.window {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timeout)
	defer cancel()
	return k.election.ValidateToken(ctx) == nil
}

func (k *keeper) announce(ctx context.Context, want Entry, s Standing, displaced bool) time.Duration {
	again := k.stood && k.mine.sameTerm(want)
	if !k.mine.sameTerm(want) {
		k.stood = false
	}
	k.mine = want // even if it fails: it may have been announced, or may yet be
	begun := time.Now()
	err := k.call(ctx, func(ctx context.Context) error { return k.system.Announce(ctx, want, s) })
	if err != nil {
		if !errors.Is(err, ErrChanged) {
			k.doubt = time.Now().Add(doubtful * k.opts.Timeout)
		}
		return k.failed("announce", want, err)
	}
	k.fresh, k.since = begun, time.Time{}
	k.stands(want)
	switch {
	case displaced:
		k.tell(Event{Kind: Displaced, Entry: s.Entry})
	case again:
		k.repaired(k.policy())
		k.tell(Event{Kind: Repaired, Entry: want})
		return k.interval()
	default:
		k.tell(Event{Kind: Announced, Entry: want})
	}
	k.repairs = 0
	return k.interval()
}

// stands notes that the entry was seen to stand, as it should.
func (k *keeper) stands(want Entry) {
	k.mine, k.stood, k.doubt, k.failures = want, true, time.Time{}, 0
}

// refresh prolongs an entry that expires.
func (k *keeper) refresh(ctx context.Context, want Entry, s Standing) time.Duration {
	r, expires := k.system.(Refresher)
	// A look that the watch asked for needs no refresh.
	if left := k.interval() - time.Since(k.fresh); expires && left > 0 {
		return left
	}
	if !expires {
		k.repairs = 0
		return k.interval()
	}
	begun := time.Now()
	if err := k.call(ctx, func(ctx context.Context) error { return r.Refresh(ctx, want, s) }); err != nil {
		return k.failed("refresh", want, err)
	}
	k.fresh, k.repairs = begun, 0
	return k.interval()
}

// follow removes what should not stand while this candidate does not lead.
func (k *keeper) follow(ctx context.Context) time.Duration {
	info := k.known()
	if info.Term != k.seen.Term || info.ID != k.seen.ID {
		k.seen, k.settled = info, time.Now().Add(settle/2+rand.N(settle/2))
	}
	// Our own is not left to others.
	if wait := time.Until(k.settled); wait > 0 && k.mine.IsZero() {
		return wait
	}
	if info.Group == "" {
		return patrol
	}
	s, err := k.look(ctx, info.Group)
	if err != nil {
		return k.failed("look", Entry{Group: info.Group}, err)
	}
	switch {
	case !k.mine.IsZero() && s.Entry.sameTerm(k.mine):
		return k.withdraw(ctx, s, Withdrawn)
	case k.doubtful():
		k.failures = 0
		return k.opts.Timeout / 10
	case !k.mine.IsZero():
		k.mine = Entry{}
	}
	switch {
	case s.Entry.IsZero():
		return k.patrol()
	case k.over(s.Entry, info):
		return k.withdraw(ctx, s, Removed)
	case info.ID == "" && info.Term == s.Entry.Term && !s.Entry.sameTerm(k.removed):
		k.failures = 0
		return trouble / 2 // it has fallen silent, or our store has
	}
	return k.patrol()
}

// patrol is the time to the next look of one that does not lead. What others
// left behind is looked for once the news have settled.
func (k *keeper) patrol() time.Duration {
	k.failures = 0
	if wait := time.Until(k.settled); wait > 0 {
		return wait
	}
	return patrol - rand.N(patrol/4)
}

// over reports whether the term of an entry has ended, as far as the election
// knows.
func (k *keeper) over(e Entry, info leader.LeaderInfo) bool {
	switch {
	case info.Term > e.Term:
		return true
	case info.Term < e.Term, info.ID != "", e.sameTerm(k.removed):
		return false
	case info.Reason.Asked():
		return true // the leader told of its end
	}
	// It has fallen silent, or we are cut off and it is not. So this is done
	// once at most: a leader that lives announces itself again.
	s := k.election.Status()
	return s.ConnectionStatus == "CONNECTED" && (s.LastError == nil || time.Since(s.LastErrorAt) > trouble)
}

func (k *keeper) withdraw(ctx context.Context, s Standing, kind Kind) time.Duration {
	if err := k.call(ctx, func(ctx context.Context) error { return k.system.Withdraw(ctx, s) }); err != nil {
		return k.failed("withdraw", s.Entry, err)
	}
	if kind == Withdrawn && !k.doubtful() {
		k.mine = Entry{}
	}
	if kind == Removed {
		k.removed = s.Entry
	}
	k.stood, k.failures = false, 0
	k.tell(Event{Kind: kind, Entry: s.Entry})
	if k.doubtful() {
		return k.opts.Timeout / 10
	}
	return k.patrol()
}

// doubtful reports whether what was announced may yet be applied.
func (k *keeper) doubtful() bool { return !k.mine.IsZero() && time.Now().Before(k.doubt) }

// leave withdraws what was announced, at the end.
func (k *keeper) leave(ctx context.Context) {
	if k.mine.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.opts.Timeout)
	defer cancel()
	k.policy().Repeat(ctx, func() (done bool) {
		s, err := k.look(ctx, k.mine.Group)
		if err != nil {
			k.failed("look", k.mine, err)
			return false
		}
		if s.Entry.sameTerm(k.mine) {
			k.withdraw(ctx, s, Withdrawn)
			return k.mine.IsZero()
		}
		return !k.doubtful()
	})
}

// policy paces what is repeated.
func (k *keeper) policy() backoff.Policy {
	p := backoff.Policy{Initial: min(max(k.interval()/10, 10*time.Millisecond), time.Second), Max: max(k.interval(), time.Second), Jitter: 0.25}
	if k.mine.IsZero() && !k.election.IsLeader() {
		p.Max = patrol // nothing of ours is at stake
	}
	return p
}
