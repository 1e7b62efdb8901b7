package advisory

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A Term is a term as advisories describe it: who led, from when until when,
// and why it ended.
type Term struct {
	// Bucket and Group name the election, Leader is the InstanceID of the one
	// that led.
	Bucket, Group, Leader string
	// Number is the term's number.
	Number uint64
	// Correlation is the same in all reports about one term: a short hash of
	// its token.
	Correlation string
	// Began is when the leader was promoted, by its own clock. It is zero if
	// only others reported the term.
	Began time.Time
	// Ended is when the term ended: by the leader's own clock, or, if the
	// leader crashed, by the clock of the candidate that noticed first, among
	// those that did not follow it again. It is zero if no advisory reports an
	// end.
	Ended time.Time
	// Reason, By and Why explain its end.
	Reason  leader.Reason
	By, Why string
}

// Covers reports whether the leader led at that time, as far as the instances'
// clocks agree.
func (t Term) Covers(at time.Time) bool {
	return !t.Began.IsZero() && !at.Before(t.Began) && (t.Ended.IsZero() || at.Before(t.Ended))
}

// Terms makes of advisories, in any order, who led each group when: by bucket
// and group, the earliest term first. A term that was granted too late to lead
// by it (leader.ReasonLateGrant) ended when it began.
func Terms(history iter.Seq[Advisory]) []Term {
	b := make(builder)
	for a := range history {
		b.take(a)
	}
	return b.terms()
}

type place struct{ bucket, group string }

// A builder holds the terms of each group by their numbers, and the reports of
// other instances about them.
type builder map[place]map[uint64]*draft

type draft struct {
	Term
	notices  []notice
	followed map[string]time.Time // when each candidate last began to follow it
}

// A notice is that a candidate took the term to be over.
type notice struct {
	by  string
	at  time.Time
	why leader.Reason
}

func (b builder) of(a Advisory, number uint64) *draft {
	at := place{a.Bucket, a.Group}
	if b[at] == nil {
		b[at] = make(map[uint64]*draft)
	}
	r := b[at][number]
	if r == nil {
		r = &draft{Term: Term{Bucket: a.Bucket, Group: a.Group, Number: number}, followed: make(map[string]time.Time)}
		b[at][number] = r
	}
	return r
}

func (b builder) take(a Advisory) {
	switch {
	case a.Event == leader.EventPromoted && a.Term != 0:
		r := b.of(a, a.Term)
		r.Leader, r.Began, r.Correlation = a.Instance, a.Time, a.Correlation
	case a.Event == leader.EventDemoted && a.Term != 0:
		r := b.of(a, a.Term)
		r.Leader, r.Ended, r.Correlation = a.Instance, a.Time, a.Correlation
		r.Reason, r.By, r.Why = a.Reason, a.By, a.Why
	case a.Reason == leader.ReasonLateGrant && a.LeaderTerm != 0:
		// It was not promoted in that term, so the advisory has no Term.
		r := b.of(a, a.LeaderTerm)
		r.Leader, r.Began, r.Ended, r.Correlation, r.Reason = a.Instance, a.Time, a.Time, a.Correlation, a.Reason
	case a.Event == leader.EventFollowing && a.Leader != "" && a.LeaderTerm != 0:
		r := b.of(a, a.LeaderTerm)
		r.Leader, r.Correlation = a.Leader, a.Correlation
		if a.Time.After(r.followed[a.Instance]) {
			r.followed[a.Instance] = a.Time
		}
	case a.Event == leader.EventCampaigning && a.LeaderTerm != 0:
		r := b.of(a, a.LeaderTerm)
		r.notices = append(r.notices, notice{a.Instance, a.Time, a.Reason})
	}
}

// noticed is the first notice that holds, if there is one. A candidate that was
// cut off, or heard late, takes a lease to be over that was renewed meanwhile.
// It follows the same term again when it hears of that. The times of one
// candidate are of one clock.
func (r *draft) noticed() (first notice) {
	for _, n := range r.notices {
		if n.at.After(r.followed[n.by]) && (first.at.IsZero() || n.at.Before(first.at)) {
			first = n
		}
	}
	return first
}

func (b builder) terms() []Term {
	var all []Term
	for _, terms := range b {
		next := time.Time{} // when a later term began
		for _, r := range latestFirst(terms) {
			if r.Leader == "" {
				continue // no advisory named its leader
			}
			r.close(next)
			if !r.Began.IsZero() {
				next = r.Began
			}
			all = append(all, r.Term)
		}
	}
	slices.SortFunc(all, func(x, y Term) int {
		return cmp.Or(cmp.Compare(x.Bucket, y.Bucket), cmp.Compare(x.Group, y.Group), cmp.Compare(x.Number, y.Number))
	})
	return all
}

func latestFirst(terms map[uint64]*draft) []*draft {
	var all []*draft
	for _, r := range terms {
		all = append(all, r)
	}
	slices.SortFunc(all, func(x, y *draft) int { return cmp.Compare(y.Number, x.Number) })
	return all
}

// close gives a term whose leader has not reported its end the end that others
// saw, or the beginning of the next.
func (r *draft) close(next time.Time) {
	n := r.noticed()
	switch {
	case !r.Ended.IsZero():
	case !n.at.IsZero() && (next.IsZero() || n.at.Before(next)):
		r.Ended, r.Reason = n.at, n.why
	default:
		r.Ended = next
	}
}
