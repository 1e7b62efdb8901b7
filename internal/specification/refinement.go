package specification

import (
	"fmt"
	"time"
)

// An Instant is a reading of both clocks of a candidate's machine, in
// nanoseconds.
type Instant struct{ Mono, Wall int64 }

func (i Instant) add(d time.Duration) Instant {
	return Instant{i.Mono + int64(d), i.Wall + int64(d)}
}

// reached reports whether now is at i or beyond on either clock.
func (i Instant) reached(now Instant) bool { return now.Mono >= i.Mono || now.Wall >= i.Wall }

// Settings are what the protocol page has a candidate know of its group.
type Settings struct {
	ID          string
	TTL, MaxTTL time.Duration
	Drift       time.Duration // TTL × d, rounded up
	DrainBudget time.Duration // for which a release waits for the work
	CoolDown    bool          // AcquireGrace
	Expires     bool          // records vanish, and nothing older comes back
	ForeignTTL  time.Duration // believed of what no candidate wrote, if it is more than TTL
}

// A Content is what a Told or a Sent shows of the register's content.
type Content struct {
	What    Kind
	Token   string
	TTL     time.Duration
	Term    uint64
	Renewal uint64
	Settled bool // of a vacancy
}

// A Kind is a kind of content.
type Kind uint8

// The kinds of content.
const (
	Nothing Kind = iota
	Record
	Vacancy
	Marker
	Garbage
)

// A Purpose is the purpose of a candidate's message.
type Purpose uint8

// The purposes.
const (
	Claim Purpose = iota
	Renewal
	Release // a vacancy
)

func (p Purpose) String() string { return [...]string{"claim", "renewal", "release"}[p] }

// A Checker follows one candidate by what can be seen from outside: what it
// heard, and what it did. Each method takes one such event in the order in
// which they happened, and returns an error for an act that the protocol does
// not allow. The candidate's own beliefs are not among them.
//
// It allows more than a candidate does: it knows no delays but those that
// safety needs, and no policy.
type Checker struct {
	set Settings

	observed map[observed]Instant // when it first heard of each
	latest   uint64               // the newest revision that it heard of
	told     bool
	heldTTL  time.Duration // of the holder's record that it heard of last
	attempts map[uint64]*attempt
	dead     map[string]bool // tokens whose release was sent, or that were replaced
	used     map[string]bool
	doubt    int64 // until when nothing is promoted

	grant   grant
	working bool
	drainBy int64 // the work's time is over then
}

// An observed is one write, as the register shows it.
type observed struct {
	rev uint64
	Content
}

// An attempt is one message to the register.
type attempt struct {
	why      Purpose
	expected uint64
	content  Content
	sent     Instant
	settled  bool // a claim of what was seen as settled
	refused  bool // for certain: it was not applied and never will be
	resolved bool // it is known what became of it
}

// A grant is a claim that the candidate knows to be applied.
type grant struct {
	token    string
	term     uint64
	rev      uint64
	renewal  uint64
	trust    Instant // the window: closed once, it stays closed
	lease    Instant // the same by the newest acknowledged write, however late that was heard of
	coolEnd  int64   // a write that left then or later has to be acknowledged
	newest   int64   // when the newest acknowledged write left
	promoted bool
	demoted  bool
	replaced bool            // it heard that its record is not the newest
	settled  bool            // nobody who led before can lead: it cooled down, or needed not to
	open     map[uint64]bool // revisions that it saw replace its record, within its window
}

// NewChecker returns the specification of a candidate that was just started.
func NewChecker(s Settings) *Checker {
	return &Checker{
		set: s, observed: map[observed]Instant{},
		attempts: map[uint64]*attempt{}, dead: map[string]bool{}, used: map[string]bool{},
	}
}

func (c *Checker) trustFor() time.Duration { return c.set.TTL - c.set.Drift }

// wait is TTL × (1 + d), rounded up, for a lease of ttl.
func (c *Checker) wait(ttl time.Duration) time.Duration {
	ttl = min(ttl, c.set.MaxTTL)
	// ceil(ttl × Drift / TTL) in whole nanoseconds.
	margin := (int64(ttl)*int64(c.set.Drift) + int64(c.set.TTL) - 1) / int64(c.set.TTL)
	return ttl + time.Duration(margin)
}

// Told is an observation of the register, by a watch or a read.
func (c *Checker) Told(rev uint64, content Content, watched bool, now Instant) {
	s := observed{rev, content}
	if _, ok := c.observed[s]; !ok {
		c.observed[s] = now
	}
	if content.What == Record && content.TTL > 0 {
		c.heldTTL = content.TTL
	}
	if c.told && watched && rev < c.latest && len(c.used) == 0 {
		c.regressed(now)
		c.latest = rev
	}
	c.latest, c.told = max(c.latest, rev), true
	c.own(s, now)
}

// regressed is rule 12 for a candidate that never claimed. Of others it cannot
// be seen from outside what they take for older than they knew.
func (c *Checker) regressed(now Instant) {
	ttl := c.heldTTL
	if ttl == 0 {
		ttl = c.set.TTL
	}
	c.doubt = now.Mono + int64(c.wait(ttl))
}

// own finds out what an observation means for the own grant and for a write
// that waits.
func (c *Checker) own(s observed, now Instant) {
	if s.What == Record && s.Token != "" && !c.dead[s.Token] {
		if a := c.earliest(s); a != nil {
			c.applied(a, s.rev, a.sent, now)
			return
		}
		if s.Token == c.grant.token {
			return // an older write of this candidate
		}
	}
	g := &c.grant
	if g.token == "" || s.rev < g.rev || (s.Token == g.token && s.What == Record) {
		return
	}
	g.replaced = true
	// A candidate that released its record may have a successor within its own
	// window.
	if (s.What == Marker || s.What == Garbage) && !g.lease.reached(now) && !c.dead[g.token] {
		g.open[s.rev] = true
	}
}

// earliest returns the first attempt that may have been the write that s shows.
func (c *Checker) earliest(s observed) (first *attempt) {
	for _, a := range c.attempts {
		if a.refused || a.resolved || a.content != s.Content {
			continue
		}
		if first == nil || a.sent.Mono < first.sent.Mono {
			first = a
		}
	}
	return first
}

// applied is the knowledge that a claim or a renewal was applied at rev. It
// counts from sent.
func (c *Checker) applied(a *attempt, rev uint64, sent, now Instant) {
	for _, other := range c.attempts {
		if other.content == a.content && other.why == a.why {
			other.resolved = true
		}
	}
	g := &c.grant
	trust := sent.add(c.trustFor())
	switch a.why {
	case Claim:
		*g = grant{token: a.content.Token, term: rev, rev: rev, trust: trust, lease: trust, newest: sent.Mono, open: map[uint64]bool{}}
		g.coolEnd, g.settled = c.doubt, a.settled
		if c.set.CoolDown && !g.settled {
			g.coolEnd = max(g.coolEnd, now.Mono+int64(c.wait(max(c.set.TTL, c.heldTTL))))
		}
	case Renewal:
		if g.token != a.content.Token || rev < g.rev {
			return
		}
		g.rev, g.renewal, g.lease = rev, a.content.Renewal, trust
		if !g.trust.reached(now) && !g.replaced {
			g.trust, g.newest = trust, sent.Mono
		}
	case Release:
	}
	c.heldTTL = a.content.TTL
}

// succeeds reports whether a claim of that revision needs no cool-down: what
// was seen there is settled, and no older record can have come back.
func (c *Checker) succeeds(expected uint64) bool {
	if !c.set.Expires {
		return false
	}
	for s := range c.observed {
		if s.rev == expected && s.What == Vacancy && s.Settled {
			return true
		}
	}
	return false
}

// Answered is the answer to the candidate's message op: applied at rev if that
// is not 0, refused for certain if refused is set, and otherwise of unknown
// outcome.
func (c *Checker) Answered(op, rev uint64, refused bool, now Instant) {
	a := c.attempts[op]
	if a == nil {
		return
	}
	if rev == 0 {
		a.refused = a.refused || refused
		return
	}
	if a.why == Release {
		s := observed{rev, a.content}
		if _, ok := c.observed[s]; !ok {
			c.observed[s] = now
		}
		return
	}
	if !a.resolved && !c.dead[a.content.Token] {
		c.applied(a, rev, a.sent, now)
	}
	c.observed[observed{rev, a.content}] = now
}

// Sends is a message of the candidate: a write that expects a revision.
func (c *Checker) Sends(op uint64, why Purpose, expected uint64, content Content, now Instant) error {
	var err error
	switch why {
	case Claim:
		err = c.claims(expected, content, now)
	case Renewal:
		err = c.renews(expected, content, now)
	case Release:
		err = c.leaves(expected, content, now)
	}
	if err != nil {
		return fmt.Errorf("%v expecting %d: %w", why, expected, err)
	}
	if why == Claim {
		// It gave up every earlier one, even one that may yet be applied.
		for token := range c.used {
			c.dead[token] = c.dead[token] || token != content.Token
		}
	}
	c.attempts[op] = &attempt{
		why: why, expected: expected, content: content, sent: now, settled: why == Claim && c.succeeds(expected),
	}
	c.used[content.Token] = true
	if why == Release {
		c.dead[content.Token] = true
	}
	return nil
}

func (c *Checker) claims(expected uint64, content Content, now Instant) error {
	switch {
	case content.Token == "" || content.What != Record:
		return fmt.Errorf("a claim needs a token, and is a record")
	case c.working:
		return fmt.Errorf("rule 9: the work of the last term has not stopped")
	case c.used[content.Token] && !c.repeats(Claim, expected, content):
		return fmt.Errorf("rule 10: token %s was used before", content.Token)
	case c.repeats(Claim, expected, content):
		return nil
	}
	return c.due(expected, now)
}

// repeats reports whether the message was sent before, and may have been lost.
func (c *Checker) repeats(why Purpose, expected uint64, content Content) bool {
	for _, a := range c.attempts {
		if a.why == why && a.expected == expected && a.content == content && !a.resolved {
			return true
		}
	}
	return false
}

// due reports why revision expected may not be claimed, nil if it may.
func (c *Checker) due(expected uint64, now Instant) error {
	err := fmt.Errorf("it never heard of that revision")
	for s, at := range c.observed {
		if s.rev != expected {
			continue
		}
		if err = c.permits(s, at, now); err == nil {
			return nil
		}
	}
	return err
}

// permits is rules 5, 6 and 7 for one observation.
func (c *Checker) permits(s observed, at, now Instant) error {
	wait, rule := time.Duration(0), "rule 5"
	switch s.What {
	case Nothing, Vacancy:
		return nil
	case Record:
		if c.over(s.Token) {
			return nil
		}
		wait = c.wait(s.TTL)
		if s.TTL <= 0 {
			wait, rule = c.foreign(), "rule 7"
		}
	case Marker:
		wait, rule = c.wait(c.leaseOr(c.set.TTL)), "rule 7"
	case Garbage:
		wait, rule = c.foreign(), "rule 7"
	}
	if left := at.Mono + int64(wait) - now.Mono; left > 0 {
		return fmt.Errorf("%s: %v too early", rule, time.Duration(left))
	}
	return nil
}

// foreign is the wait at what no candidate wrote.
func (c *Checker) foreign() time.Duration {
	return c.wait(max(c.set.ForeignTTL, c.set.TTL, c.heldTTL))
}

func (c *Checker) leaseOr(ttl time.Duration) time.Duration {
	if c.heldTTL != 0 {
		return c.heldTTL
	}
	return ttl
}

// over reports whether token is of an own claim by which the candidate never
// acts again.
func (c *Checker) over(token string) bool {
	return c.used[token] && !c.working && (token != c.grant.token || c.grant.demoted || !c.grant.promoted)
}

func (c *Checker) renews(expected uint64, content Content, now Instant) error {
	g := &c.grant
	switch {
	case g.token == "" || content.Token != g.token:
		return fmt.Errorf("rule 2: it holds no such claim")
	case c.dead[content.Token]:
		return fmt.Errorf("rule 10: its release was sent")
	case !c.ownWrite(expected):
		return fmt.Errorf("rule 2: its own latest write is %d", g.rev)
	case g.trust.reached(now):
		return fmt.Errorf("rule 2: its window has closed")
	case g.replaced:
		return fmt.Errorf("rule 8: it was told that its record was replaced")
	case content.Renewal != c.renewalAt(expected)+1:
		return fmt.Errorf("rule 4: renewal %d follows %d", content.Renewal, c.renewalAt(expected))
	case content.Term != g.term:
		return fmt.Errorf("rule 11: the term is %d, not %d", g.term, content.Term)
	}
	return nil
}

func (c *Checker) leaves(expected uint64, content Content, now Instant) error {
	switch {
	case content.What != Vacancy:
		return fmt.Errorf("it is no vacancy")
	case c.working && (!c.grant.demoted || now.Mono < c.drainBy):
		return fmt.Errorf("rule 9: the work has not stopped")
	case now.Mono < c.doubt:
		return fmt.Errorf("rule 12: a regress was seen")
	case content.Settled && (!c.grant.settled || content.Token != c.grant.token || !c.ownWrite(expected)):
		return fmt.Errorf("cool-down: it does not know that nobody led before")
	case c.ownRecord(expected, content.Token):
		return nil
	case c.grant.open[expected]:
		return nil // rule 8
	}
	if err := c.due(expected, now); err != nil && !c.claimed(expected) {
		return fmt.Errorf("rule 6: neither its own record, nor seen within its window, nor due (%w)", err)
	}
	return nil
}

// ownWrite reports whether the revision is a write of the current claim, and
// not after the latest that the candidate heard of. A write that expects an
// earlier one is refused, since the later one was applied; in a store whose
// records only vanish, no older record takes the place of a newer one. A
// candidate forgets the answer to a read that it has given up, by which it
// heard of the later one.
func (c *Checker) ownWrite(rev uint64) bool {
	return rev == c.grant.rev || rev < c.grant.rev && c.ownRecord(rev, c.grant.token)
}

// renewalAt is the number of the renewal at a revision of ownWrite.
func (c *Checker) renewalAt(rev uint64) uint64 {
	for s := range c.observed {
		if rev < c.grant.rev && s.rev == rev && s.What == Record && s.Token == c.grant.token {
			return s.Renewal
		}
	}
	return c.grant.renewal
}

// ownRecord reports whether the record at revision rev is of the own claim with
// this token, as far as the candidate heard.
func (c *Checker) ownRecord(rev uint64, token string) bool {
	for s := range c.observed {
		if s.rev == rev && s.What == Record && s.Token == token && c.used[token] {
			return true
		}
	}
	return false
}

// claimed reports whether a claim on that very revision was sent.
func (c *Checker) claimed(expected uint64) bool {
	for _, a := range c.attempts {
		if a.why == Claim && a.expected == expected {
			return true
		}
	}
	return false
}

// Promotes is the call of OnPromote.
func (c *Checker) Promotes(now Instant) error {
	g := &c.grant
	switch {
	case g.token == "" || g.replaced || g.promoted:
		return fmt.Errorf("promotion: it holds no new claim")
	case c.dead[g.token]:
		return fmt.Errorf("promotion, rule 10: its release was sent")
	case c.working:
		return fmt.Errorf("promotion, rule 9: the work of the last term has not stopped")
	case g.trust.reached(now):
		return fmt.Errorf("promotion, rule 3: the window has closed")
	case g.newest < g.coolEnd || now.Mono < c.doubt:
		return fmt.Errorf("promotion, cool-down: no write that left after it was acknowledged")
	}
	g.promoted, c.working = true, true
	g.settled = c.set.CoolDown
	return nil
}

// Demotes is the end of the term's context. The work has a budget from here on.
func (c *Checker) Demotes(now Instant) {
	c.grant.demoted = true
	c.drainBy = now.Mono + int64(c.set.DrainBudget)
}

// Drained is the return of OnDemote.
func (c *Checker) Drained() { c.working = false }

// MayAct reports whether the candidate may act at now, and why not.
func (c *Checker) MayAct(now Instant) error {
	g := &c.grant
	switch {
	case !g.promoted || g.demoted:
		return fmt.Errorf("acts, but is not promoted")
	case c.dead[g.token]:
		return fmt.Errorf("acts, but its release was sent")
	case g.replaced:
		return fmt.Errorf("acts, but was told that its record was replaced")
	case g.trust.reached(now):
		return fmt.Errorf("rule 1: acts %v after its window closed", time.Duration(now.Mono-g.trust.Mono))
	}
	return nil
}

// Window returns when the right to act ends, for those who want to look there.
func (c *Checker) Window() Instant { return c.grant.trust }
