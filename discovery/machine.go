package discovery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
)

const (
	// patrol is how often a keeper looks for an entry to remove while its
	// witness reports no leader. A change of leader causes an extra look.
	patrol = 30 * time.Second
	// settle is how long a candidate leaves that to the next leader, which
	// replaces the entry.
	settle = time.Second
	// trouble is how long after an error of its store a candidate does not take
	// a leader's silence for its end.
	trouble = 10 * time.Second
	// doubtful is for how many times Options.Timeout a former leader looks
	// again and again after a write that may yet be applied.
	doubtful = 2
	// patience is for how many trust windows a leader leaves alone an entry of
	// a term that is later than its own.
	patience = 3
)

// A witness reports who leads. There are two: a candidate of the group, and an
// observer of its record.
type witness interface {
	// view returns what is known now, and reports why nothing is heard.
	view() view
	// silent reports whether the term of the leader that was heard of last, of
	// which no end was announced, may count as ended. If not, again is when to
	// look again, 0 for the next patrol.
	silent(ctx context.Context, v view) (yes bool, again time.Duration, err error)
	// confirms reports whether the store acknowledges that this process leads.
	confirms(ctx context.Context) bool
	// returns reports whether an entry that was gone at that time may be
	// announced again.
	returns(gone time.Time) bool
}

// A view is what a witness knows at some instant.
type view struct {
	// Entry is the leader's. Without a leader it has the group, and the term of
	// the last one.
	Entry

	leads   bool          // the system has to show Entry, until its term ends
	until   time.Time     // the end of the trust window, or of the lease
	window  time.Duration // its length
	left    bool          // the last leader announced the end of its term
	settled time.Time     // before which others may replace what was left behind
}

// A keeper is one call of Keep or Follow: the one machine of both. Its
// goroutine owns all fields except those that mu guards.
type keeper struct {
	witness

	system  Announcer
	opts    Options
	follows bool          // it announces for others: it withdraws nothing at its end
	news    chan struct{} // who leads has changed
	touched chan struct{} // the system's watch reports a change

	mu     sync.Mutex
	leader Entry // who leads, Instance empty without a leader
	flight flight

	failures int           // in a row
	logged   time.Time     // when the latest line of one was written
	repairs  int           // in a row
	calm     time.Time     // before which the watch's news wait
	stop     func()        // ends the watch
	window   time.Duration // view.window
	settled  time.Time     // view.settled

	mine    Entry     // what a candidate announced, or may have, and has not withdrawn yet
	stood   Entry     // the last entry that was seen as it should be
	doubt   time.Time // until when mine may yet be applied
	fresh   time.Time // when the entry was announced or refreshed
	own     string    // the version that a follower wrote itself
	gone    time.Time // when stood was first seen to be missing
	rival   string    // the version of a later term's entry
	since   time.Time // when that was first seen
	removed Entry     // what was removed last, of a leader that had fallen silent
}

func newKeeper(system Announcer, opts Options) *keeper {
	return &keeper{system: system, opts: opts.withDefaults(), news: make(chan struct{}, 1), touched: make(chan struct{}, 1)}
}

// run keeps the entry until ctx is done or ended is closed.
func (k *keeper) run(ctx context.Context, ended <-chan struct{}) {
	for delay := k.step(ctx); k.await(ctx, ended, delay); {
		delay = k.step(ctx)
	}
	k.unwatch()
}

// hear notes who leads. A call on behalf of an earlier term ends. The caller
// holds mu.
func (k *keeper) hear(e Entry) {
	k.leader = e
	k.land()
	poke(k.news)
}

// step brings the system in line with what the witness knows, as far as one
// step can, and returns when to look again.
func (k *keeper) step(ctx context.Context) time.Duration {
	v := k.view()
	k.window, k.settled = v.window, v.settled
	if v.leads {
		return k.lead(ctx, v.Entry, v.until)
	}
	k.unwatch()
	return k.clear(ctx, v)
}

// interval is the time from one look to the next while somebody leads.
func (k *keeper) interval() time.Duration { return k.between(k.window) }

// lead keeps the leader's entry announced.
func (k *keeper) lead(ctx context.Context, want Entry, until time.Time) time.Duration {
	ctx, done := k.during(ctx, want.Term, until)
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
	case s.Entry.IsZero() && !k.mayReturn(s, want):
		return k.interval()
	case s.Damaged || !s.Entry.Same(want):
		return k.announce(ctx, want, s, later)
	default:
		k.stands(want)
		return k.refresh(ctx, want, s)
	}
}

// mayDisplace reports whether an entry of a later term belongs to a history
// other than the group's, so that this leader may replace it. If the store
// acknowledges our term after the entry was seen, no later term had started by
// then.
func (k *keeper) mayDisplace(ctx context.Context, s Standing) bool {
	now := time.Now()
	k.failures = 0
	if k.since.IsZero() || s.Version != k.rival {
		k.rival, k.since = s.Version, now
		k.tell(Event{Kind: Superseded, Entry: s.last(), Err: ErrSuperseded})
	}
	if now.Sub(k.since) < patience*k.window {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timeout)
	defer cancel()
	return k.confirms(ctx)
}

// mayReturn reports whether a missing entry may be announced. The leader itself
// may have withdrawn an entry that was seen in this term.
func (k *keeper) mayReturn(s Standing, want Entry) bool {
	if !k.stood.sameTerm(want) && s.LastTerm < want.Term {
		return true // it was never seen
	}
	if k.gone.IsZero() {
		k.gone = time.Now()
	}
	return k.returns(k.gone)
}

func (k *keeper) announce(ctx context.Context, want Entry, s Standing, displaced bool) time.Duration {
	if !k.follows {
		k.mine = want // even if it fails: it may have been announced, or may yet be
	}
	begun := time.Now()
	err := k.call(ctx, func(ctx context.Context) error { return k.system.Announce(ctx, want, s) })
	if err != nil {
		if !errors.Is(err, ErrChanged) {
			k.doubt = time.Now().Add(doubtful * k.opts.Timeout)
		}
		return k.failed("announce", want, err)
	}
	ev := Event{Kind: Announced, Entry: want}
	switch {
	case displaced:
		ev = Event{Kind: Displaced, Entry: s.Entry}
	case k.stood.sameTerm(want):
		ev.Kind = Repaired
	}
	k.fresh, k.since, k.own, k.failures = begun, time.Time{}, "", 0
	k.stands(want)
	if k.follows { // it refreshes its own entry alone, which it knows by the version
		if after, err := k.look(ctx, want.Group); err == nil && after.Entry.Same(want) {
			k.own = after.Version
		}
	}
	if ev.Kind == Repaired {
		k.repaired()
	} else {
		k.repairs = 0
	}
	k.tell(ev)
	return k.interval()
}

// stands notes that the entry was seen as it should be.
func (k *keeper) stands(want Entry) {
	k.stood, k.gone, k.doubt = want, time.Time{}, time.Time{}
	if !k.follows {
		k.mine = want
	}
}

// refresh prolongs an entry that expires. A follower leaves the entry of
// another keeper to that one.
func (k *keeper) refresh(ctx context.Context, want Entry, s Standing) time.Duration {
	r, expires := k.system.(Refresher)
	begun := time.Now()
	if expires && (!k.follows || s.Version == k.own) {
		if left := k.interval() - begun.Sub(k.fresh); left > 0 {
			return left // the watch asked for this look
		}
		if err := k.call(ctx, func(ctx context.Context) error { return r.Refresh(ctx, want, s) }); err != nil {
			return k.failed("refresh", want, err)
		}
		k.fresh = begun
	}
	k.failures, k.repairs = 0, 0
	return k.interval()
}

// clear removes the entry that must not remain while the witness has no leader
// whose entry is to be kept.
func (k *keeper) clear(ctx context.Context, v view) time.Duration {
	// Our own is not left to others.
	if wait := time.Until(v.settled); wait > 0 && k.mine.IsZero() {
		return wait
	}
	if v.Group == "" {
		return patrol // nothing is known
	}
	s, err := k.look(ctx, v.Group)
	if err != nil {
		return k.failed("look", v.Entry, err)
	}
	switch {
	case !k.mine.IsZero() && s.Entry.sameTerm(k.mine):
		return k.withdraw(ctx, s, Withdrawn)
	case k.doubtful():
		k.failures = 0
		return k.opts.Timeout / 10
	}
	k.mine = Entry{}
	if s.Entry.IsZero() {
		return k.patrol()
	}
	over, again, err := k.over(ctx, v, s.Entry)
	switch {
	case err != nil:
		return k.failed("confirm that the leader has fallen silent", v.Entry, err)
	case over:
		return k.withdraw(ctx, s, Removed)
	case again > 0:
		k.failures = 0
		return again
	}
	return k.patrol()
}

// over reports whether the term of an entry has ended, as far as the witness
// knows. Silence ends a term once at most: a leader that lives announces itself
// again.
func (k *keeper) over(ctx context.Context, v view, e Entry) (over bool, again time.Duration, err error) {
	switch {
	case e.Term != v.Term:
		return e.Term < v.Term, 0, nil
	case v.left:
		return true, 0, nil
	case v.Instance != "", e.sameTerm(k.removed):
		return false, 0, nil
	default:
		return k.silent(ctx, v)
	}
}

func (k *keeper) withdraw(ctx context.Context, s Standing, kind Kind) time.Duration {
	if err := k.call(ctx, func(ctx context.Context) error { return k.system.Withdraw(ctx, s) }); err != nil {
		return k.failed("withdraw", s.Entry, err)
	}
	switch {
	case kind == Removed:
		k.removed = s.Entry
	case k.doubtful():
		k.stood = Entry{}
	default:
		k.stood, k.mine = Entry{}, Entry{}
	}
	k.failures = 0
	k.tell(Event{Kind: kind, Entry: s.Entry})
	if k.doubtful() {
		return k.opts.Timeout / 10
	}
	return k.patrol()
}

// patrol is the time to the next look while there is no entry to keep. A keeper
// looks for what others left behind once the news have settled.
func (k *keeper) patrol() time.Duration {
	k.failures = 0
	if wait := time.Until(k.settled); wait > 0 {
		return wait
	}
	return patrol - rand.N(patrol/4)
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
	if !k.follows && k.mine.IsZero() && !k.view().leads {
		p.Max = patrol // none of our entries is at stake
	}
	return p
}
