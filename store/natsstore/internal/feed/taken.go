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
)

// look notices that the server took subscriptions away, and asks for them again
// when that is due.
func (s *Set) look(now time.Time, due func(time.Time)) {
	if s.republished == "" {
		return
	}
	if !now.Before(s.nextLook) {
		s.nextLook = now.Add(lookForTaken)
		if !s.trying && s.tookOne() {
			// Others may have been taken with it, since the connection shows
			// the latest denial alone.
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
	if reported == s.reported {
		return false
	}
	s.reported = reported
	if wire.Violation(reported, wire.Subscribe, s.republished) == nil {
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
	for f := range s.subscriptions {
		if which(f) {
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
			switch {
			case s.bySub[sub] != f:
			case ok:
				s.tried(f)
			default: // it may be denied yet
				s.retries = append(s.retries, f)
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
// of its keys.
func (s *Set) tried(f *Feed) {
	was := f.taken
	f.taken = s.deniedSince(f)
	s.reported = s.owner.LastError()
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
