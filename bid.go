package leader

import (
	"context"
	mrand "math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A bid is what a follower has to say to the leader of a term: its standing, so that the record
// tells the others whom to let go first, and perhaps that it would like to take over. It says so through the control
// record, to be heard by the leader alone; nothing depends on its being heard.
type bid struct {
	token string // the term's
	term  uint64
	since int64 // when the term was seen first (monotonic), and a little later: not all at once, when many follow

	at     int64 // when the bid is due (monotonic), 0 for none
	flying bool
	asks   bool // the one that is flying asks to take over

	tell, ask int64 // not before: to make the standing known, and to ask to take over
	pause     time.Duration
	// refused is until when no bid is made, since one was refused for good.
	refused int64
}

// refusedFor is how long a candidate that may not write the control record leaves it alone.
const refusedFor = 10 * time.Minute

func (b *bid) due() int64 {
	if b.at == 0 || b.flying {
		return machine.Never
	}
	return b.at
}

// considerBid plans a bid to the leader that was just seen, or none.
func (l *loop) considerBid() {
	v, b, now := l.state.View, &l.bid, l.e.clock.now().Mono
	b.at = 0
	if l.state.Phase != machine.Watching || v.Kind != machine.Held || v.Rec.Token == l.state.Grant.Token || v.Rec.Token != l.record.Token {
		return
	}
	if v.Rec.Token != b.token {
		since := now + mrand.Int64N(int64(l.e.cfg.HeartbeatInterval))
		*b = bid{
			token: v.Rec.Token, term: v.Term(), since: since, tell: since,
			flying: b.flying, refused: b.refused, pause: l.e.cfg.TTL,
		}
	}
	switch {
	case l.state.Barred != 0 || now < b.refused:
	case l.unknown():
		b.at = b.tell
		if l.preferred() {
			b.at = min(b.at, l.mayAsk())
		}
	case l.preferred():
		b.at = l.mayAsk()
	}
}

// mayAsk is when this candidate, which is preferred, may ask to take over: those that are preferred to it, too, go first.
func (l *loop) mayAsk() int64 {
	cfg := l.e.cfg
	first := standings(l.record.Standings).fresh().behind(cfg.VersionPolicy, cfg.standing())
	return max(l.bid.ask, l.bid.since+int64(min(cfg.MinTenure, forever)+time.Duration(first)*cfg.TTL), l.state.StandBackUntil)
}

// overhear takes in what another candidate says of its standing. What one of them has said need not be said by all that
// are its like, which may be hundreds.
func (l *loop) overhear(s *record.Stand) {
	cfg, b := l.e.cfg, &l.bid
	if s == nil || s.Term != b.term || s.ID == cfg.InstanceID || !cfg.VersionPolicy.same(standing{s.Priority, s.Version}, cfg.standing()) {
		return
	}
	again := l.e.clock.now().Mono + int64(b.pause)
	b.tell = max(b.tell, again)
	if s.Takeover {
		b.ask = max(b.ask, again)
	}
}

// unknown tells whether the leader has yet to hear of this candidate's standing.
func (l *loop) unknown() bool {
	p, s, known := l.e.cfg.VersionPolicy, l.e.cfg.standing(), standings(l.record.Standings)
	// Where all are alike nobody has anything to say, nor has who would find no place behind all that the record holds.
	return !known.knows(p, s) && known.heard(p, s).knows(p, s)
}

// preferred tells whether this candidate wants to take over from the leader.
func (l *loop) preferred() bool {
	cfg := l.e.cfg
	return cfg.AllowPriorityTakeover && cfg.VersionPolicy.outranks(cfg.standing(), standing{l.record.Priority, l.record.Version})
}

// makeBid makes the bid if it is due.
func (l *loop) makeBid() {
	now := l.e.clock.now().Mono
	if now >= l.bid.due() {
		l.sendBid(now)
	}
}

func (l *loop) sendBid(now int64) {
	b, cfg := &l.bid, &l.e.cfg
	b.flying, b.asks = true, l.preferred() && now >= l.mayAsk()
	stand := record.Stand{ID: cfg.InstanceID, Term: b.term, Priority: cfg.Priority, Version: cfg.Version, Takeover: b.asks}
	l.spawn("bid", func() {
		ctx, cancel := context.WithTimeout(l.ctx, cfg.ConnectionTimeout)
		defer cancel()
		err := changeControl(ctx, l.e.sheltered(), cfg.Group, func(c *record.Control) { c.Stand = &stand })
		l.e.mail.put(letter{bid: &err})
	})
}

// bidMade takes in how a bid ended. It is made again as long as the leader's record does not show that it was heard, at growing
// intervals: a leader that does not want to be taken over says nothing.
func (l *loop) bidMade(err error) {
	b := &l.bid
	b.flying = false
	now := l.e.clock.now().Mono
	if store.Classify(err) == store.Permanent {
		b.refused = now + int64(refusedFor)
	}
	if err != nil {
		l.report(Note{At: time.Now(), Kind: NoteBid, Text: "the candidate's standing could not be told to the leader: " + err.Error()})
	}
	b.tell = now + int64(b.pause)
	if b.asks {
		b.ask = b.tell
	}
	b.pause = min(2*b.pause, max(l.e.cfg.MinTenure, l.e.cfg.TTL))
}

// hear takes in what a candidate says of its standing, as the leader that it says it to.
func (l *loop) hear(s *record.Stand) {
	cfg := l.e.cfg
	if s == nil || l.state.Phase != machine.Holding || s.Term != l.state.Grant.Term || s.ID == cfg.InstanceID {
		return
	}
	theirs := standing{s.Priority, s.Version}
	l.known = l.known.heard(cfg.VersionPolicy, theirs)
	// They count from when they first saw the term, by a clock of theirs.
	served := l.e.clock.now().Mono-l.since >= int64(float64(cfg.MinTenure)*(1-2*cfg.ClockDrift))
	if cfg.AllowPriorityTakeover && s.Takeover && served && cfg.VersionPolicy.outranks(theirs, cfg.standing()) {
		l.step(machine.Event{Kind: machine.Asked, Term: s.Term, Exit: machine.Exit{
			Reason: machine.ReasonOutranked, By: s.ID, Successor: s.ID,
		}})
	}
}
