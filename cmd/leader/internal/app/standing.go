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

// unanswered bounds a question to a server of NATS, which does not answer a user
// without the right to ask.
const unanswered = time.Second

// A Standing is who leads a group now.
type Standing struct {
	// LeaderInfo is the content of the record. If its holder leads no more, ID is
	// empty, Reason is leader.ReasonExpired, and Renewed is the latest renewal.
	leader.LeaderInfo
	// Last is the leader whose lease has run out, and Ended when it did. Ended and
	// Renewed are by the server's clock, or by the leader's if StoredAt is zero.
	Last  string
	Ended time.Time
	// StoredAt is when the server stored the record, and Revision its revision.
	// Both are zero if the store does not report them.
	StoredAt time.Time
	Revision uint64
}

// Judge returns who leads at now, given a record that was just read and the time
// at which the server stored the record. If storedAt is zero, Judge takes the
// holder for the leader: see [Session.Stand].
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

// Standings judges records that were just read, as Stand does. Where Stand
// fails, the holder of the record is taken for the leader.
func (s *Session) Standings(ctx context.Context, infos []leader.LeaderInfo) []Standing {
	if s.elsewhere == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unanswered) // once for all groups
		defer cancel()
	}
	all := make([]Standing, len(infos))
	var asking sync.WaitGroup
	for i, info := range infos {
		if all[i].LeaderInfo = info; info.ID == "" {
			continue
		}
		asking.Go(func() {
			if standing, err := s.Stand(ctx, info); err == nil {
				all[i] = standing
			}
		})
	}
	asking.Wait()
	return all
}

// Stand judges a record that was just read. It may be called for many groups
// concurrently.
//
// On NATS it asks the server when the record was stored. The server does not
// answer a user without the right to ask: Stand then fails after a second.
//
// Other stores do not report that time, and the clock of the leader, by which
// the record states its latest renewal, may be wrong. If the lease has run out
// by that clock, Stand watches the record: for a third of the lease, which is
// the longest time from one renewal to the next, but no longer than ctx and the
// session's Timeout leave. If the record changes, its holder leads; otherwise it
// leads no more.
func (s *Session) Stand(ctx context.Context, info leader.LeaderInfo) (Standing, error) {
	if s.elsewhere != nil {
		return s.standElsewhere(ctx, info), nil
	}
	release, err := s.asking.turn(ctx)
	if err != nil {
		return Standing{}, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	at, revision, err := s.StoredAt(ctx, info.Group)
	if err != nil {
		return Standing{}, err
	}
	return Judge(info, at, revision, time.Now()), nil
}

func (s *Session) standElsewhere(ctx context.Context, info leader.LeaderInfo) Standing {
	now := time.Now()
	lease := info.Until.Sub(now)
	judged := Judge(info, info.Renewed, 0, now)
	judged.StoredAt = time.Time{}
	if judged.Last == "" {
		return judged
	}
	switch changed, err := s.changes(ctx, info.Group, lease/3); {
	case changed:
		// Another may hold the record by now.
		if infos, err := leader.SnapshotWithStore(ctx, s.elsewhere, info.Group); err == nil && len(infos) == 1 {
			return Standing{LeaderInfo: infos[0]}
		}
	case err == nil:
		return judged
	}
	info.Until = time.Now().Add(lease)
	return Standing{LeaderInfo: info}
}

// changes reports whether a record changes within a time. The time starts at the
// session's earliest read of the revision that the record has now. changes leaves
// a tenth of what remains of ctx to the last read and to the caller.
func (s *Session) changes(ctx context.Context, group string, within time.Duration) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	revision, err := s.revision(ctx, group)
	if err != nil {
		return false, err
	}
	now := time.Now()
	end := s.asking.seen(group, revision, now).Add(within)
	if deadline, ok := ctx.Deadline(); ok {
		end = earlier(end, deadline.Add(-deadline.Sub(now)/10))
	}
	const looks = 4
	for pause := end.Sub(now) / looks; time.Now().Before(end); {
		select {
		case <-time.After(min(max(pause, time.Millisecond), time.Until(end))):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		at, failure := s.revision(ctx, group)
		if err = failure; err == nil && at != revision {
			return true, nil
		}
	}
	return false, err
}

// revision reads the revision of a record.
func (s *Session) revision(ctx context.Context, group string) (uint64, error) {
	release, err := s.asking.turn(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	e, err := s.elsewhere.Get(ctx, group)
	return e.Revision, err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
