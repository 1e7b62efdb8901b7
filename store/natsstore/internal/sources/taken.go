package sources

import "time"

// doubtEvery is how often a source is asked for again at most.
const doubtEvery = 10 * time.Second

// A server that reloads its configuration takes the subscriptions away that its
// users may no longer have (nats-server, client.go, processSubsOnConfigReload).
// The connection stays up. It reports the loss as an error among others, and
// shows the latest error alone. So each caller that reads what a source should
// have brought calls Doubt first.

// Doubt asks for a source by subscription again, if the connection has reported
// anything since Doubt last did so: the server may have taken the source away,
// and the right may be back since. Messages may be lost while the subscription
// is being made, so the caller reads. While the server refuses the
// subscription, its keys are known by reads alone, and each read asks for it
// once more.
func (s *Set) Doubt(f *Source) {
	now := time.Now()
	//nolint:errorlint // an equal error in another value is a new report
	if f == nil || f.consumer || f.answers != nil || f.taken == nil && s.owner.LastError() == f.before || now.Before(f.doubtAt) {
		return
	}
	if err := s.listen(f, f.Subject()); err != nil {
		s.owner.Report(err)
		return
	}
	f.doubtAt = now.Add(doubtEvery)
	sub := f.sub
	s.owner.Refused(f.Subject(), func(denied error) {
		if s.bySub[sub] == f {
			s.tried(f, denied)
		}
	})
}

// DoubtFor is [Set.Doubt] of the key's source.
func (s *Set) DoubtFor(key string) { s.Doubt(s.byKey[key]) }

// tried takes in whether the server refuses a source.
func (s *Set) tried(f *Source, denied error) {
	was := f.taken
	f.taken = denied
	if (was == nil) == (denied == nil) {
		return
	}
	for key := range s.served(f) {
		s.keys.Read(key)
	}
	for _, v := range f.viewers {
		if denied != nil {
			v.Taken()
		} else {
			v.Resumed()
		}
	}
}
