package feed

import (
	"maps"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A server whose configuration is loaded anew takes the subscriptions away that
// its users may no longer have (nats-server, client.go,
// processSubsOnConfigReload). The connection stands, and reports that as an
// error among others.
const (
	// lookForTaken is how often the connection is asked for such an error.
	lookForTaken = 2 * time.Second
	// retryTaken is when what was taken is asked for again. Rights may come
	// back with the next configuration, and the server logs each attempt.
	retryTaken = 10 * time.Second
	// doubtMost is the longest time between two rounds in which all is asked
	// for again, since something else was reported that may hide what was
	// taken. Where such reports never end, and nothing is ever found taken, the
	// rounds become that rare.
	doubtMost = 2 * time.Minute
	// undecidedMost is how often a feed is asked for again in one round, while
	// other errors hide whether it is denied.
	undecidedMost = 5
)

// A doubt is whether the server took subscriptions away. The connection shows
// its latest error alone. So whatever it reports may hide that.
type doubt struct {
	reported error         // at the last look
	open     bool          // something was reported since the last round
	next     time.Time     // no round before, unless one of ours is named
	wait     time.Duration // between rounds
}

// look notices that the server took subscriptions away, and asks for them again
// when that is due.
func (s *Set) look(now time.Time, due func(time.Time)) {
	if !now.Before(s.nextLook) {
		s.nextLook = now.Add(lookForTaken)
		took := s.tookOne()
		if took {
			s.doubt.wait = 0
		}
		if !s.trying && s.doubt.open && (took || !now.Before(s.doubt.next)) {
			s.doubt.open = false
			s.doubt.wait = min(max(2*s.doubt.wait, retryTaken), doubtMost)
			s.doubt.next = now.Add(s.doubt.wait)
			s.retry(func(*Feed) bool { return true })
		}
	}
	due(s.nextLook)
	switch {
	case s.retryAt.IsZero():
	case now.Before(s.retryAt):
		due(s.retryAt)
	default:
		s.retryAt = time.Time{}
		s.retry(func(f *Feed) bool { return f.taken != nil })
	}
}

// tookOne reports whether the connection reports since the last look that a
// subscription of ours was taken.
func (s *Set) tookOne() bool {
	reported := s.owner.LastError()
	//nolint:errorlint // an equal error in another value is a new report
	if reported == s.doubt.reported {
		return false
	}
	s.doubt.reported, s.doubt.open = reported, s.doubt.open || reported != nil
	if s.republished == "" || wire.Violation(reported, wire.Subscribe, s.republished) == nil {
		return false // without a look at each
	}
	for f := range s.subscriptions {
		if s.deniedSince(f) != nil {
			return true
		}
	}
	return false
}

// deniedSince returns the denial of a feed by subscription that was reported
// since it was asked for, or nil.
func (s *Set) deniedSince(f *Feed) error {
	reported := s.owner.LastError()
	//nolint:errorlint // as above
	if reported == f.before {
		return nil
	}
	return s.Denied(f, reported)
}

// retry asks for the feeds again, one after the other, since only so the
// connection says of each whether it is denied. The new subscription is there
// before the old one ends.
func (s *Set) retry(which func(*Feed) bool) {
	// With each retry: a denial of those may be hidden by one of a feed.
	for f := range s.subscriptions {
		if which(f) {
			f.undecided = 0
			s.retries = append(s.retries, f)
		}
	}
	if !s.trying {
		s.tryNext()
	}
}

func (s *Set) tryNext() {
	for len(s.retries) > 0 {
		f := s.retries[0]
		s.retries = s.retries[1:]
		if s.bySub[f.sub] != f {
			continue // it has ended meanwhile
		}
		if err := s.listen(f, f.Subject()); err != nil {
			s.owner.Report(err)
			continue
		}
		s.trying = true
		sub := f.sub
		s.owner.Ping(func(ok bool) {
			s.trying = false
			if s.bySub[sub] == f {
				s.tried(f, ok)
			}
			s.tryNext()
		})
		return
	}
	for f := range s.subscriptions {
		if f.taken != nil {
			s.retryAt = time.Now().Add(retryTaken)
			s.owner.Nudge()
			return
		}
	}
}

// tried takes in whether a feed was denied. Until it is back, reads alone tell
// of its keys. Where the server has not answered, and where something else was
// reported meanwhile, that is not known: it is tried once more.
func (s *Set) tried(f *Feed, answered bool) {
	reported, denied := s.owner.LastError(), s.deniedSince(f)
	switch {
	case !answered:
		s.retries = append(s.retries, f)
		return
	case denied != nil:
		s.doubt.reported = reported
	//nolint:errorlint // an equal error in another value is a new report
	case reported != f.before:
		s.doubt.open = true
		f.undecided++
		if f.undecided < undecidedMost {
			s.retries = append(s.retries, f)
			return
		}
		denied = f.taken // as far as anyone knows
	}
	was := f.taken
	f.taken = denied
	if f.taken != nil && was != nil {
		return
	}
	for key := range s.served(f) {
		s.keys.Read(key)
	}
	for _, v := range f.viewers {
		if f.taken != nil {
			v.Taken()
		} else {
			v.Resumed()
		}
	}
}

// subscriptions calls yield with each feed by subscription that stands at its
// turn: what viewers are told may end some.
func (s *Set) subscriptions(yield func(*Feed) bool) {
	for sub, f := range maps.Clone(s.bySub) {
		if !f.consumer && f.answers == nil && s.bySub[sub] == f && !yield(f) {
			return
		}
	}
}
