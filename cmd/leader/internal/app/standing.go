package app

import (
	"context"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// clockSlack is how far the clocks of the server and of this host may differ
// before Judge calls a leader dead. It is generous, because a wrong verdict
// makes an operator act.
const clockSlack = 2 * time.Second

// A Standing is who leads a group now.
type Standing struct {
	// LeaderInfo is the content of the record. If the lease has run out since
	// the server stored the record, ID is empty and Reason is
	// leader.ReasonExpired.
	leader.LeaderInfo
	// Last is the leader whose lease has run out, and Ended when it did, by the
	// server's clock.
	Last  string
	Ended time.Time
	// StoredAt is when the server stored the record, and Revision its revision.
	// Both are zero if the store does not report them.
	StoredAt time.Time
	Revision uint64
}

// Judge returns who leads at now, given a record that was just read and the time
// at which the server stored the record. If storedAt is zero, Judge takes the
// holder for the leader: the clock of a leader may be wrong.
func Judge(info leader.LeaderInfo, storedAt time.Time, revision uint64, now time.Time) Standing {
	s := Standing{LeaderInfo: info, StoredAt: storedAt, Revision: revision}
	if info.ID == "" || storedAt.IsZero() {
		return s
	}
	lease := info.Until.Sub(now)
	left := lease - now.Sub(storedAt)
	if left < -clockSlack {
		s.Last, s.Ended = info.ID, storedAt.Add(lease).UTC()
		s.LeaderInfo = leader.LeaderInfo{
			Group: info.Group, Term: info.Term, Transitions: info.Transitions, Correlation: info.Correlation,
			Acquired: info.Acquired, Renewed: storedAt, Reason: leader.ReasonExpired,
		}
		return s
	}
	s.Until = now.Add(min(max(left, 0), lease))
	return s
}

// Standings judges records that were just read. A user without the right to ask
// when the records were stored waits for a second, and gets their holders.
func (s *Session) Standings(ctx context.Context, infos []leader.LeaderInfo) []Standing {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all := make([]Standing, len(infos))
	turns := make(chan struct{}, 32)
	var asking sync.WaitGroup
	for i, info := range infos {
		turns <- struct{}{}
		asking.Go(func() {
			defer func() { <-turns }()
			if all[i].LeaderInfo = info; info.ID == "" {
				return
			}
			if at, revision, err := s.StoredAt(ctx, info.Group); err == nil {
				all[i] = Judge(info, at, revision, time.Now())
			}
		})
	}
	asking.Wait()
	return all
}
