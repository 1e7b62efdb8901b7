package board

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
)

// Recall puts the terms from a history before the terms that were seen, for the
// groups that the board knows. The terms come earliest first, and are all there
// were since a time. Their times are by the candidates' clocks; none is taken
// to be later than what was seen here.
func (b *Board) Recall(terms []advisory.Term, since time.Time) {
	past := make(map[string][]Term)
	for _, r := range terms {
		past[r.Group] = append(past[r.Group], Term{
			Number: r.Number, Leader: r.Leader, Correlation: r.Correlation, Began: r.Began, Ended: r.Ended,
			Reason: bounded(r.Reason), By: r.By, Why: r.Why,
		})
	}
	now := time.Now()
	b.update(func() {
		for name, terms := range past {
			if g := b.find(name); g != nil {
				g.recall(terms, since, now)
				g.changed = b.seq
			}
		}
	})
}

// recall takes in past terms. Slices that were handed out stay as they are.
func (g *Group) recall(past []Term, since, now time.Time) {
	seen := slices.Clone(g.Terms)
	limit := now // when the terms that were seen begin
	if len(seen) > 0 {
		first := &seen[0]
		i := slices.IndexFunc(past, func(t Term) bool { return t.Number >= first.Number })
		if i >= 0 {
			if t := past[i]; t.Number == first.Number && t.Leader == first.Leader && !t.Began.IsZero() {
				first.Began, first.Older = earlier(t.Began, first.Began), false
			}
			past = past[:i] // the rest was seen
		}
		limit = first.Began
	}
	past = past[max(0, len(past)-(MaxTerms-len(seen))):]
	for i := range past {
		t := &past[i]
		if t.Ended.IsZero() { // no advisory reported it
			t.Ended, t.Reason = limit, ReasonUnseen
		}
		if t.Began.IsZero() { // at some time after the one before
			t.Began, t.Older = since, true
			if i > 0 && past[i-1].Ended.After(since) {
				t.Began = past[i-1].Ended
			}
		}
		t.Ended = earlier(t.Ended, limit)
		t.Began = earlier(t.Began, t.Ended)
	}
	g.Terms = slices.Concat(past, seen)
}

// A Finding is what the store, a history or the leader itself reports about a
// group that was found. Without any of these it is the record's content, by the
// clock of its writer.
type Finding struct {
	Group string
	Term  uint64
	// Since is when the term began or, in a vacant group, ended; zero if nobody
	// knows.
	Since time.Time
	// Renewed is when the store took the latest renewal, by its clock. Own: by
	// the leader's clock.
	Renewed time.Time
	Own     bool
	// Until is when the lease runs out, zero if only the record contains it.
	Until time.Time
	// Dead reports that the leader's lease has run out, at Since.
	Dead bool
	// Last led last, if the group is vacant. Came is why the leader came, if it
	// is not.
	Last string
	Came Cause
}

// Learn records findings. A finding about a term that is over by now is
// ignored.
func (b *Board) Learn(all []Finding) {
	b.update(func() {
		for _, f := range all {
			if g := b.find(f.Group); g != nil && g.Term == f.Term && g.learn(f) {
				g.changed = b.seq
			}
		}
	})
}

// learn reports whether the finding is news. Slices that were handed out stay
// as they are.
func (g *Group) learn(f Finding) (news bool) {
	last := len(g.Terms) - 1
	if g.ID != "" {
		g.Came = f.Came
	} else {
		g.Last = cmp.Or(g.Last, f.Last)
	}
	switch {
	case f.Dead && (g.ID == "" || g.Confirmed):
		return false // it was found so, and has been seen to act or to be gone since
	case f.Dead:
		g.Last = g.ID
		g.take(leader.LeaderInfo{
			Group: g.Group, Term: g.Term, Transitions: g.Transitions, Correlation: g.Correlation, Acquired: g.Acquired,
			Renewed: f.Renewed, Reason: leader.ReasonExpired,
		})
		g.end(f.Since, g.Reason, "", "")
		g.confirm()
		return true
	case f.Since.IsZero():
	case g.ID != "" && last >= 0 && g.Terms[last].Older:
		g.Terms = slices.Clone(g.Terms)
		g.Terms[last].Began, g.Terms[last].Older = earlier(f.Since, g.Terms[last].Began), false
		news = true
	case g.ID == "" && last < 0 && g.vacantSince.IsZero():
		g.vacantSince, news = f.Since, true
	}
	if g.ID != "" && !g.Confirmed && !f.Renewed.IsZero() {
		g.Renewed, g.Own, news = f.Renewed, f.Own, true
		if !f.Until.IsZero() {
			g.Until = earlier(f.Until, g.Until)
		}
	}
	return news
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
