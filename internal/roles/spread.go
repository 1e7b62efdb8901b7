package roles

import (
	"context"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A ledger counts who leads how many of a manager's roles, and plans what
// moves. It is guarded by the manager's mu.
type ledger struct {
	leading  int            // roles that we claim or lead
	occupied int            // these, and those that we are leaving
	others   map[string]int // roles that others lead, by their InstanceID
	gained   time.Time      // when another was last seen to take a vacant role
	barred   bool           // the roles that we do not lead were notified that there is no room

	pull    *pull     // what we have asked for and not got yet
	next    time.Time // when we may ask again
	uneven  bool      // another leads so many more that we ask for roles
	starved bool      // roles that no instance has room for were logged

	effects []func() // of the present step: see later
}

// A pull is one request for a role that another leads.
type pull struct {
	s     *candidacy
	term  uint64
	until time.Time
}

// settle takes in how far a role is in our hands. m.mu is held.
func (m *Manager) settle(s *candidacy, h hold) {
	if s.hold == h {
		return
	}
	m.leading += count(h == held) - count(s.hold == held)
	m.occupied += count(h != vacant) - count(s.hold != vacant)
	s.hold = h
	if h == held {
		s.yielding = time.Time{}
	}
	m.fill()
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m *Manager) isFull() bool { return m.cfg.MaxRoles > 0 && m.occupied >= m.cfg.MaxRoles }

// fill keeps the roles that we do not lead from campaigning while there is no
// room for them. It is admit that holds the bound; without this, a follower
// could go on asking to be preferred. m.mu is held.
func (m *Manager) fill() {
	full := m.isFull()
	if !full && !m.barred || m.stopped {
		return
	}
	m.barred = full
	for _, s := range m.candidacies {
		switch {
		case s.c.Over(): // nobody would read it
		case full && s.hold == vacant && !s.full:
			s.full = true
			s.c.Bar(machine.Event{Kind: machine.Bar, Bars: machine.Full})
		case !full && s.full:
			s.full = false
			s.c.Bar(machine.Event{Kind: machine.Unbar, Bars: machine.Full})
		}
	}
}

// list takes in who leads a role. m.mu is held.
func (m *Manager) list(s *candidacy, info leadership.Info) {
	since := s.vacantSince
	m.unlist(s)
	s.term = info.Term
	switch {
	case info.ID != "":
		s.yielding = time.Time{}
	case since.IsZero():
		s.vacantSince = time.Now()
	default:
		s.vacantSince = since
	}
	if info.ID != "" && info.ID != m.cfg.InstanceID {
		s.leader, s.last, s.standing = info.ID, info.ID, preference.Standing{Priority: info.Priority, Version: info.Version}
		m.others[s.leader]++
		if !since.IsZero() {
			m.gained = time.Now()
		}
	}
}

// unlist forgets who leads a role. m.mu is held.
func (m *Manager) unlist(s *candidacy) {
	s.vacantSince = time.Time{}
	if s.leader == "" {
		return
	}
	m.others[s.leader]--
	if m.others[s.leader] == 0 {
		delete(m.others, s.leader)
	}
	s.leader = ""
}

// yield returns for how long a vacant role is to be left to others, because we
// have our fair share. Of n instances with fewer roles than there are, one has
// less than its share, and goes first; the wait is for those that cannot. The
// wait is computed again several times, since the roles that we lead include
// claims that are under way: each claim that we lose to another may make room,
// and an instance that really has its share must not be faster then. m.mu is
// held.
func (m *Manager) yield(s *candidacy, now time.Time) time.Duration {
	if !m.cfg.Spread {
		return 0
	}
	gone := count(m.others[s.last] > 0) // it has just left the role, and perhaps permanently
	if m.leading < m.share(len(m.others)-gone) {
		return 0
	}
	if s.yielding.IsZero() {
		s.yielding = now
	}
	ttl := m.cfg.TTL
	idle := now.Sub(s.yielding)
	if m.gained.After(s.yielding) {
		idle = now.Sub(m.gained) // others are at it
	}
	patience := min(ttl/4, 500*time.Millisecond)
	return min(s.yielding.Add(ttl).Sub(now), patience-idle, patience/8)
}

// share is how many roles we lead at most when they are spread evenly over
// us and so many others.
func (m *Manager) share(others int) int { return (len(m.candidacies) + others) / (others + 1) }

// idle is how long the manager waits where only an event can change anything.
const idle = time.Hour

// look does what is due, and returns when to look again.
func (m *Manager) look(now time.Time) time.Duration {
	again := idle
	m.step(func() {
		if !m.stopped {
			again = max(min(m.starving(now), m.balance(now)), 0)
		}
	})
	return again
}

// starving logs once that there are roles without a leader that we have no room
// for. m.mu is held.
func (m *Manager) starving(now time.Time) time.Duration {
	patience := 2 * m.cfg.TTL
	wait, names := idle, []string(nil)
	for _, s := range m.candidacies {
		if !m.barred || !s.full || s.vacantSince.IsZero() {
			continue
		}
		if left := s.vacantSince.Add(patience).Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		names = append(names, s.name)
	}
	if len(names) > 0 && !m.starved {
		slices.Sort(names)
		m.log(slog.LevelWarn, "roles without a leader, and no room for them here",
			"roles", len(names), "first", names[0], "max_roles", m.cfg.MaxRoles)
	}
	m.starved = len(names) > 0
	return wait
}

// balance asks for a role of an instance that leads more, if it is time to.
// m.mu is held.
func (m *Manager) balance(now time.Time) time.Duration {
	if !m.cfg.Spread || m.sick != nil {
		return idle
	}
	if p := m.pull; p != nil {
		if !p.over(now) {
			return p.until.Sub(now)
		}
		m.pull = nil
	}
	if m.isFull() || !m.unequal() {
		m.uneven = false
		return idle
	}
	if !m.uneven {
		// An instance came or left. The leaders of roles change by themselves
		// now, for as long as leases run out one after the other.
		m.uneven = true
		m.wait(now, jittered(2*m.cfg.HeartbeatInterval))
	}
	if now.Before(m.next) {
		return m.next.Sub(now)
	}
	s := m.choose(now)
	if s == nil || !m.hasRoomFor(s, now) {
		m.wait(now, jittered(m.cfg.TTL))
		return m.next.Sub(now)
	}
	m.wait(now, m.interval())
	m.begin(s, now)
	return m.pull.until.Sub(now)
}

// wait lets no request be made for so long.
func (m *Manager) wait(now time.Time, d time.Duration) {
	if t := now.Add(d); t.After(m.next) {
		m.next = t
	}
}

// interval is the time from one request to the next.
func (m *Manager) interval() time.Duration {
	d := float64(m.cfg.TTL) / (m.cfg.Pace * float64(max(len(m.candidacies), 1)))
	// A tiny Pace would overflow, and be the fastest of all.
	return jittered(time.Duration(min(d, float64(engine.Forever))))
}

// jittered varies d by half of it, so that instances that do the same do not do
// it at the same time.
func jittered(d time.Duration) time.Duration { return d/2 + mrand.N(max(d, 1)) }

// unequal reports whether another leads so much more that one of its roles
// should be ours. Beyond our share no role should be, since some other instance
// then has less than its share.
func (m *Manager) unequal() bool {
	if m.leading >= m.share(len(m.others)) {
		return false
	}
	for _, n := range m.others {
		if n >= m.leading+2 {
			return true
		}
	}
	return false
}

// choose picks a role to ask for, at random among the roles of the instances
// that lead most: others may be choosing, too.
func (m *Manager) choose(now time.Time) (chosen *candidacy) {
	most, alike := m.leading+2, 0
	for _, s := range m.candidacies {
		n := m.others[s.leader]
		if n < most || !s.askable(now) {
			continue
		}
		if n > most {
			most, alike = n, 0
		}
		alike++
		if mrand.N(alike) == 0 {
			chosen = s
		}
	}
	return chosen
}

// askable reports whether nothing speaks against asking for a role.
func (s *candidacy) askable(now time.Time) bool {
	switch {
	case s.hold != vacant, s.going, now.Before(s.waitUntil), s.shown.Barred != "", s.policy.Outranks(s.standing, s.own):
		return false
	default:
		return true
	}
}

// over reports whether a request has been answered, or for long enough has not.
func (p *pull) over(now time.Time) bool {
	s := p.s
	if p.answered() {
		return true
	}
	if now.Before(p.until) {
		return false
	}
	s.waitUntil = now.Add(4 * s.m.cfg.TTL) // it was refused, or nobody heard of it
	return true
}

// answered reports whether the role is ours, or is led by another instance than
// the one that was asked, or is being removed.
func (p *pull) answered() bool {
	s := p.s
	return s.hold == held || s.going || s.leader != "" && s.term != p.term
}

// awaits reports whether the manager waits for what it has asked for.
func (p *pull) awaits(now time.Time) bool { return p != nil && !p.answered() && now.Before(p.until) }

// hasRoomFor reports whether there is room for a role in addition to the roles
// that others were asked for, and may give away any moment. m.mu is held.
func (m *Manager) hasRoomFor(s *candidacy, now time.Time) bool {
	if m.cfg.MaxRoles == 0 {
		return true
	}
	n := m.occupied
	for _, o := range m.candidacies {
		awaited := o.asked.awaits(now) || m.pull != nil && m.pull.s == o && m.pull.awaits(now)
		n += count(o != s && o.hold == vacant && awaited)
	}
	return n < m.cfg.MaxRoles
}

// reserved returns for how long a claim of s is to wait, since the last room is
// kept for another role that we have asked for. A leader gives a role away to
// us alone: it stays back itself, as do all others, for longer than a lease.
// The wait ends with the request, whatever its result, and is computed again
// several times, since the request may be answered before. A leader that
// refuses looks like one whose work takes its time to stop, so the room is kept
// no longer than a TTL for either. m.mu is held.
func (m *Manager) reserved(s *candidacy, now time.Time) time.Duration {
	p := m.pull
	if m.cfg.MaxRoles == 0 || m.occupied+1 < m.cfg.MaxRoles || p == nil || p.s == s || p.s.hold != vacant || p.over(now) {
		return 0
	}
	return min(p.until.Sub(now), m.cfg.TTL/16)
}

// begin asks for a role. m.mu is held.
func (m *Manager) begin(s *candidacy, now time.Time) {
	m.pull = &pull{s: s, term: s.term, until: now.Add(m.cfg.TTL)}
	id := m.cfg.InstanceID
	req := record.Request{
		Op: record.OpBalance, Term: s.term, Successor: id, By: id, Have: m.leading,
		Reason: fmt.Sprintf("it leads %d roles more", m.others[s.leader]-m.leading),
	}
	m.log(slog.LevelInfo, "asking for a role", "role", s.name, "leader", s.leader, "theirs", m.others[s.leader], "ours", m.leading)
	p := m.pull
	m.tasks.Go(func() { // after a panic the request counts as made, and is given up in time
		m.guard("asking", func() { m.asked(p, m.ask(s.name, req)) })
	})
}

// ask makes a request through the role's control record. A single attempt is
// enough: there is always another role to ask for.
func (m *Manager) ask(role string, req record.Request) error {
	ctx, cancel := context.WithTimeout(m.io, m.cfg.ConnectionTimeout)
	defer cancel()
	key := record.ControlKey(role)
	entry, err := m.store.Get(ctx, key)
	if err != nil {
		return err
	}
	c := controlrecord.Read(entry)
	asked, err := m.awaitsAnswer(ctx, role, c.Request, req.Term)
	if err != nil {
		return err
	}
	if c.Paused != nil || asked {
		return fmt.Errorf("%w: it is paused, or somebody else has asked for it", store.ErrConflict)
	}
	c.Request = req
	return controlrecord.Write(ctx, m.store, key, entry.Revision, c)
}

// awaitsAnswer reports whether an operator has asked the leader of the term, or
// of a later term, to leave. A request for a later term counts only if the
// record shows that this term has ended: leader step-down --withdraw leaves a
// request for a term that nobody leads, which would block the role for ever.
func (m *Manager) awaitsAnswer(ctx context.Context, role string, r record.Request, term uint64) (bool, error) {
	switch {
	case r.Op == "" || r.Op == record.OpBalance || r.Term < term:
		return false, nil
	case r.Term == term:
		return true, nil
	}
	entry, err := m.store.Get(ctx, role)
	if err != nil {
		return false, err
	}
	seen, _ := record.Read(entry)
	return seen.Term() != term, nil
}

// asked takes in how a request was made.
func (m *Manager) asked(p *pull, err error) {
	m.step(func() {
		switch store.Classify(err) {
		case store.OK, store.Unknown:
			return // it may have been heard
		case store.Permanent:
			m.wait(time.Now(), engine.RefusedFor)
			m.log(slog.LevelWarn, "cannot ask for roles", "error", err)
		default:
			p.s.waitUntil = time.Now().Add(m.cfg.HeartbeatInterval)
		}
		if m.pull == p {
			m.pull = nil
		}
		m.nudge()
	})
}
