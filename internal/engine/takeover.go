package engine

import (
	mrand "math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A takeover is what a follower sends to the leader of a term: its priority,
// and whether it asks to take over. The record then shows the others which
// candidates go first. The message goes through the control record, which the
// leader alone reads for it; nothing depends on its arrival. The takeover is
// made when the first leader is followed: thousands of leaders in one process
// may never follow one.
type takeover struct {
	env   *env
	token string // the term's
	term  uint64
	// When the term was seen first (monotonic), and a little later: not all at
	// once, when many follow.
	since int64

	at      int64 // when the request is due (monotonic), 0 for none
	sending bool
	asks    bool // the one that is being sent asks to take over

	tell, ask int64 // not before: to make the standing known, and to ask to take over
	requests  int   // to the leader of this term, that have ended
	// refused is until when no request is made, since one was refused
	// permanently.
	refused int64
}

// due is when the loop is to look again. Nothing is due while a request is
// under way: its answer determines how to go on.
func (t *takeover) due() int64 {
	if t == nil || t.at == 0 || t.sending {
		return machine.Never
	}
	return t.at
}

// consider plans a request to the leader that was just seen, or none, and makes
// it if it is due.
func (t *takeover) consider(s *machine.State, held *record.Record, now int64) {
	t.plan(s, held, now)
	if now >= t.due() {
		t.send(s, held, now)
	}
}

// follows reports whether a candidate in state s follows the leader whose
// record it holds.
func follows(s *machine.State, held *record.Record) bool {
	v := &s.View
	return s.Phase == machine.Watching && v.Kind == machine.Held && v.Rec.Token != s.Grant.Token && v.Rec.Token == held.Token
}

// plan decides again with each step when a request is due, since all that it
// depends on may have changed: the leader, the leader's record, messages of
// others, the bars of this candidate. The random part is drawn once for a term;
// repeated draws would end with a small one.
func (t *takeover) plan(s *machine.State, held *record.Record, now int64) {
	v := &s.View
	t.at = 0
	if !follows(s, held) {
		return
	}
	if v.Rec.Token != t.token {
		since := now + mrand.Int64N(int64(t.env.cfg.HeartbeatInterval))
		*t = takeover{
			env: t.env, token: v.Rec.Token, term: v.Term(), since: since, tell: since,
			// Keep the fields that do not belong to the term.
			sending: t.sending, refused: t.refused,
		}
	}
	switch {
	case s.Barred != 0 || now < t.refused:
	case t.unknown(held):
		t.at = t.tell
		if t.preferred(held) {
			t.at = min(t.at, t.mayAsk(s, held))
		}
	case t.preferred(held):
		t.at = t.mayAsk(s, held)
	}
}

// mayAsk is when this candidate, which is preferred, may ask to take over:
// those that are preferred to it, too, go first.
func (t *takeover) mayAsk(s *machine.State, held *record.Record) int64 {
	cfg := &t.env.cfg
	first := preference.Standings(held.Standings).Fresh().Behind(cfg.VersionPolicy, cfg.Standing)
	return max(t.ask, t.since+int64(min(cfg.MinTenure, Forever)+time.Duration(first)*cfg.TTL), s.StandBackUntil)
}

// overhear records another candidate's message about its priority. Candidates
// with the same priority, which may be hundreds, need not repeat it.
func (t *takeover) overhear(s *record.Stand, now int64) {
	if t == nil {
		return
	}
	cfg := &t.env.cfg
	if s == nil || s.Term != t.term || s.ID == cfg.InstanceID || !cfg.VersionPolicy.Same(standingOf(s), cfg.Standing) {
		return
	}
	again := now + int64(t.delay())
	t.tell = max(t.tell, again)
	if s.Takeover {
		t.ask = max(t.ask, again)
	}
}

func standingOf(s *record.Stand) preference.Standing {
	return preference.Standing{Priority: s.Priority, Version: s.Version}
}

// unknown reports whether the leader has yet to hear of this candidate's
// priority. Where all have the same priority no candidate sends anything, nor
// does a candidate that would find no place behind all that the record holds.
func (t *takeover) unknown(held *record.Record) bool {
	p, s, known := t.env.cfg.VersionPolicy, t.env.cfg.Standing, preference.Standings(held.Standings)
	return !known.Know(p, s) && known.Heard(p, s).Know(p, s)
}

// preferred reports whether this candidate wants to take over from the leader.
func (t *takeover) preferred(held *record.Record) bool {
	cfg := &t.env.cfg
	return cfg.AllowTakeover && cfg.VersionPolicy.Outranks(cfg.Standing, preference.Standing{Priority: held.Priority, Version: held.Version})
}

// send makes a request, on a separate goroutine: the control record is read,
// changed and written, perhaps more than once.
func (t *takeover) send(s *machine.State, held *record.Record, now int64) {
	e, cfg := t.env, &t.env.cfg
	asks := t.preferred(held) && now >= t.mayAsk(s, held)
	if asks && !e.mayHave(t.term) {
		asks, t.ask = false, now+mrand.Int64N(int64(cfg.HeartbeatInterval))+int64(cfg.HeartbeatInterval)
		if !t.unknown(held) || now < t.tell {
			t.plan(s, held, now)
			return
		}
	}
	t.sending, t.asks = true, asks
	stand := record.Stand{ID: cfg.InstanceID, Term: t.term, Priority: cfg.Standing.Priority, Version: cfg.Standing.Version, Takeover: t.asks}
	e.spawn("takeover request", func() {
		ctx, cancel := e.bounded()
		defer cancel()
		err := controlrecord.Change(ctx, &e.store, cfg.Group, func(c *record.Control) { c.Stand = &stand })
		e.inbox.put(&message{requested: &err})
	})
}

// mayHave reports whether the instance could take a role before it asks the
// leader of a term for it. Otherwise the leader would give it up for nothing,
// and nobody would lead for longer than a lease, since all others stand back.
func (e *env) mayHave(term uint64) bool {
	return e.cfg.Supervisor == nil || e.cfg.Supervisor.Asks(term)
}

// sent takes in how a request ended, and returns what to report of that. The
// request is repeated, at growing intervals, until the leader's record shows
// it. A leader that refuses a takeover answers nothing.
func (t *takeover) sent(err error, now int64) (text string) {
	t.sending = false
	// Most often it is a right that the user lacks, which operators may keep
	// from candidates. To go on asking would do no more than fill logs.
	if store.Classify(err) == store.Permanent {
		t.refused = now + int64(RefusedFor)
	}
	if err != nil {
		text = "failed to report this candidate's priority to the leader: " + err.Error()
	}
	t.tell = now + int64(t.delay())
	if t.asks {
		t.ask = t.tell
	}
	t.requests++
	return text
}

// delay is the time from one request to the next.
func (t *takeover) delay() time.Duration {
	cfg := &t.env.cfg
	return backoff.Policy{Initial: cfg.TTL, Max: max(cfg.MinTenure, cfg.TTL)}.Steady(t.requests + 1)
}

// grants reports whether a leader that was promoted at since hands over to a
// candidate with this priority. That candidate counts from when it first saw
// the term, by its own clock.
func (e *env) grants(s *record.Stand, since, now int64) bool {
	cfg := &e.cfg
	served := now-since >= int64(float64(cfg.MinTenure)*(1-2*cfg.ClockDrift))
	return cfg.AllowTakeover && s.Takeover && served && cfg.VersionPolicy.Outranks(standingOf(s), cfg.Standing)
}
