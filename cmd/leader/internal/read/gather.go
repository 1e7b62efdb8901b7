package read

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/archive"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store"
)

// A user may lack the right to ask sources that know more than the records. The
// server drops such questions, so that only a timeout shows it.
const (
	// enough bounds each question.
	enough = time.Second
	// soon is when leaders are asked what the history and the records should
	// have answered by then. Otherwise those who may ask neither would wait for
	// one after the other.
	soon = enough / 4
)

// gather returns the groups that match a pattern and of which the bucket knows
// something.
func gather(ctx context.Context, s *app.Session, st store.Store, pattern string) ([]Group, error) {
	infos, err := leader.SnapshotWithStore(ctx, st, pattern)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	groups := make([]Group, 0, len(infos))
	for _, info := range infos {
		if info.ID != "" || info.Reason != leader.ReasonAbsent {
			groups = append(groups, groupOf(info, now))
		}
	}
	newDetails(s).complete(ctx, pattern, groups)
	return groups, nil
}

// details are facts that records do not contain, or by the leader's clock
// alone: since when, and why. The history knows best, then the time at which
// the server stored the record, then the leader itself, then the record. A
// source is given up with its first failure.
type details struct {
	history func(ctx context.Context, pattern string) []advisory.Advisory
	record  source[app.Standing]
	leader  source[rollcall.Candidate]
	// atOnce is for how many groups the sources are asked side by side.
	atOnce int
	// patience bounds the answers for all groups.
	patience time.Duration
}

// A source answers questions about one group. failed is shared by all
// questions, since the right to ask is missing for all groups alike: else a
// list would wait for each. within bounds one question.
type source[T any] struct {
	ask    func(context.Context, Group) (T, error)
	failed *atomic.Bool
	within time.Duration
}

// try asks the source, unless it has failed before. No error is returned: what
// is not known is left out, and a list without it is better than none.
func (s source[T]) try(ctx context.Context, g Group) (answer T) {
	if s.failed.Load() {
		return answer
	}
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	answer, err := s.ask(ctx, g)
	if err != nil {
		s.failed.Store(true)
	}
	return answer
}

// newDetails returns what asks the sources of a session, each of which starts
// afresh. A store elsewhere than on NATS is the only source, and may have to be
// watched for long ([app.Session.Stand]).
func newDetails(s *app.Session) *details {
	d := &details{atOnce: 32, patience: 2 * enough}
	limit := enough
	if s.Elsewhere() != nil {
		d.atOnce, d.patience, limit = math.MaxInt, s.Timeout, s.Timeout
	}
	d.history = func(ctx context.Context, pattern string) []advisory.Advisory { return latest(ctx, s, pattern) }
	d.record = source[app.Standing]{func(ctx context.Context, g Group) (app.Standing, error) {
		return s.Stand(ctx, g.info)
	}, new(atomic.Bool), limit}
	d.leader = source[rollcall.Candidate]{func(ctx context.Context, g Group) (rollcall.Candidate, error) {
		return leaderOf(ctx, s, g)
	}, new(atomic.Bool), enough}
	return d
}

// complete fills in what can be known of the groups: on NATS in 1.25 s if nobody
// answers, and in 2 s at most. Groups are asked for side by side, and on NATS no
// more than 32 at a time: each is a request or two to servers that have other
// work.
func (d *details) complete(ctx context.Context, pattern string, groups []Group) {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	p := d.remember(ctx, pattern)
	turns := make(chan struct{}, min(d.atOnce, len(groups)))
	var all sync.WaitGroup
	for i := range groups {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			groups[i] = d.of(ctx, groups[i], p)
		})
	}
	all.Wait()
}

// A past is the content of the history, when it is known.
type past struct {
	known  chan struct{}
	latest map[string]map[leader.Event]advisory.Advisory
}

// remember asks for the latest advisories of the groups. A single request
// covers all groups. latest may be read when known is closed, and not before.
func (d *details) remember(ctx context.Context, pattern string) *past {
	p := &past{make(chan struct{}), make(map[string]map[leader.Event]advisory.Advisory)}
	go func() {
		defer close(p.known)
		ctx, cancel := context.WithTimeout(ctx, enough)
		defer cancel()
		for _, a := range d.history(ctx, pattern) {
			if p.latest[a.Group] == nil {
				p.latest[a.Group] = make(map[leader.Event]advisory.Advisory)
			}
			p.latest[a.Group][a.Event] = a
		}
	}()
	return p
}

// of returns a group with what can be known of it.
//
// The leader itself is asked last, and only if the others are late or do not
// know: a roll call reaches every candidate of the group, and each of them
// answers.
func (d *details) of(ctx context.Context, g Group, p *past) Group {
	var kept app.Standing
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		kept = d.record.try(ctx, g)
	}()
	inTime := within(ctx, soon, p.known, asked)
	told := func() Group {
		all := p.latest[g.Group]
		return g.withHistory(all[leader.EventPromoted], all[leader.EventDemoted]).withStanding(kept, time.Now())
	}
	var itself rollcall.Candidate
	if g.Leader != "" && (!inTime || told().Since.IsZero()) {
		itself = d.leader.try(ctx, g)
	}
	<-p.known
	<-asked
	if g = told(); g.Since.IsZero() && !itself.Since.IsZero() {
		g = g.since(itself.Since)
		g.Reason = itself.Reason
	}
	return g.since(began(g.info))
}

// within reports whether all channels are closed within a time. It waits for
// one after the other, which takes no longer.
func within(ctx context.Context, d time.Duration, all ...<-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, c := range all {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// latest asks the stream that keeps the history, if there is one. That there is
// none is not worth a word: most buckets have no history.
func latest(ctx context.Context, s *app.Session, pattern string) []advisory.Advisory {
	js, err := s.JetStream()
	if err != nil {
		return nil
	}
	h, _ := archive.Latest(ctx, js, s.Bucket, pattern) // what was read before an error is true all the same
	return h.Advisories
}

// leaderOf asks the leader of a group. A leader that does not answer, or not
// among the first of very many, is not found. Malformed answers are ignored. An
// answer of another term does not count: it describes what the record no longer
// contains, or not yet.
func leaderOf(ctx context.Context, s *app.Session, g Group) (rollcall.Candidate, error) {
	if s.Elsewhere() != nil {
		return rollcall.Candidate{}, nil
	}
	for c, err := range rollcall.Ask(ctx, s.NC, s.Bucket, g.Group) {
		switch {
		case errors.Is(err, nats.ErrMaxMessages), errors.Is(err, rollcall.ErrMalformed):
		case err != nil:
			return rollcall.Candidate{}, err
		case c.State == leader.StateLeader && c.Instance == g.Leader && c.Term == g.Term:
			return c, nil
		}
	}
	return rollcall.Candidate{}, nil
}
