//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/once"
	"github.com/seed-ff2cb582/leader/store"
)

// unreached is why --try ends where no server answers.
const unreached = "the server is not reached"

// beginPeriod notes the period of --once, and has leader run end with it, until
// ctx is done, if it has not led by then. The period is determined at the
// start, and not when the store answers: the others are in it, too.
func (r *runner) beginPeriod(ctx context.Context) {
	if !r.c.Once {
		return
	}
	r.period = r.c.schedule().At(time.Now())
	late := time.AfterFunc(time.Until(r.period.End), func() {
		r.mu.Lock()
		r.late = true
		r.mu.Unlock()
		r.giveUp(exitTaken, periodOver)
	})
	context.AfterFunc(ctx, func() { late.Stop() })
}

const periodOver = "the period of --once is over, and this host did not get to lead in it"

// limit begins to look, until ctx is done, for what else ends leader run before
// it leads. For --once that is another host's note, which a watch delivers:
// most hosts end by it at once, without having led. Neither this nor the end of
// the period decides whether the program may start; first does.
func (r *runner) limit(ctx context.Context) {
	if r.c.Try {
		go r.attempt(ctx)
	}
	if r.c.Once {
		r.runs.Watch(ctx, func(ran inspect.Run) { r.giveUp(app.ExitOK, r.describe(ran)) })
	}
}

// register returns the register of runs of --once.
func (r *runner) register(keys store.Store, storedAt func(ctx context.Context, key string) (time.Time, uint64, error)) *once.Register {
	return &once.Register{
		Store: keys, Group: r.c.Group, ID: r.cfg.InstanceID, Period: r.period, Timeout: r.c.Timeout, StoredAt: storedAt,
		Warn: func(text string) { r.say("--once: %s", text) },
	}
}

func (r *runner) describe(ran inspect.Run) string { return describe(ran, r.c.schedule(), r.period) }

// first notes that this host begins the run of the period, and reports whether
// it is the first to do so. If not, or if it may not, leader run ends.
func (r *runner) first(ctx context.Context, term leader.Term) bool {
	by, err := r.runs.Note(ctx, term.Number)
	switch {
	case by != nil:
		r.say("%s", r.describe(*by))
		r.finish(app.ExitOK)
	case errors.Is(err, once.ErrClockAhead):
		r.say("this host's clock is more than %v ahead of the server's clock: its note would keep the other hosts from starting a run", r.period.End.Sub(r.period.Begin))
		r.finish(app.ExitFailure)
	case err != nil && store.Classify(err) == store.Permanent:
		r.say("--once: the run cannot be noted: %v", err)
		r.finish(app.ExitCode(err))
	}
	return by == nil && err == nil
}

// attemptInterval is the longest time between two looks of --try. The first
// ones come sooner, since --try mostly finds a leader that lives: cron starts
// it each minute on each host.
const attemptInterval = 200 * time.Millisecond

// A holder is another candidate that holds a record, as --try sees it. Later
// observations are compared with the first look at a term, by this host's clock
// alone.
type holder struct {
	term     uint64
	revision uint64
	since    time.Time
}

// attempt ends leader run when all its groups are taken, and when the server is
// not reached. It goes on after giveUp, which a term that has just begun
// refuses: when that term is lost, another may lead.
func (r *runner) attempt(ctx context.Context) {
	begun := time.Now()
	holders := make(map[*candidacy]holder)
	for backoff := attemptInterval / 10; ; backoff = min(2*backoff, attemptInterval) {
		if !r.session.Connected() && time.Since(begun) > r.c.Timeout {
			r.giveUp(app.ExitTimeout, unreached)
		} else if why := r.taken(ctx, holders); why != "" {
			r.giveUp(exitTaken, why)
		}
		if !sleep(ctx, backoff) {
			return
		}
	}
}

// taken returns why this host is not to lead any of its groups now, and is
// empty if it may yet. One free candidacy is enough to stay for.
func (r *runner) taken(ctx context.Context, holders map[*candidacy]holder) (why string) {
	for _, s := range r.candidacies {
		if why = r.slotTaken(ctx, s, holders); why == "" {
			return ""
		}
	}
	return why
}

// slotTaken is taken for one candidacy. A follower without a leader campaigns, and
// one that follows a record without a sign of life waits for its lease: neither
// is a reason to end, since then nobody would run the program.
func (r *runner) slotTaken(ctx context.Context, s *candidacy, holders map[*candidacy]holder) string {
	st := s.e.Status()
	switch {
	case st.Barred == leader.ReasonPaused || st.Barred == leader.ReasonDrained || st.Barred == leader.ReasonUnhealthy:
		return fmt.Sprintf("not to lead %s: %s", s.group, st.Barred)
	case st.State != leader.StateFollower || st.LeaderID == "":
		delete(holders, s)
		return ""
	case !r.lives(ctx, s, st, holders):
		return ""
	}
	return fmt.Sprintf("%q leads %s in term %d", st.LeaderID, s.group, st.LeaderTerm)
}

// lives reports whether the leader that is followed is known to live: the
// server has stored its record within the lease, or again since the first look.
// Where the server does not report the time, a leader that is still followed
// after its lease does.
func (r *runner) lives(ctx context.Context, s *candidacy, st leader.ElectionStatus, holders map[*candidacy]holder) bool {
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	r.mu.Lock()
	info := r.known[s.group]
	r.mu.Unlock()
	at, revision, err := r.storedAt(ctx, s.group)
	h, ok := holders[s]
	if !ok || h.term != st.LeaderTerm {
		h = holder{term: st.LeaderTerm, revision: revision, since: time.Now()}
		holders[s] = h
	}
	// What is left of the lease as the election sees it, and so at most the
	// lease itself, whose length another program's record may not contain.
	lease := info.Until.Sub(h.since)
	switch {
	case info.Term != st.LeaderTerm:
		return false // it has just taken over: another look
	case err != nil || at.IsZero():
		return time.Now().After(info.Until.Add(time.Second))
	}
	return revision != h.revision || time.Since(at) < lease
}
