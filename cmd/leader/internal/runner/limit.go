//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// unreached is why --try ends where no server answers.
const unreached = "the server is not reached"

// beginPeriod notes the period of --once, and has leader run end with it, until
// ctx is done, if it has not led by then. The period is that of the start, and
// not that in which the store answers: the others are in it, too.
func (r *runner) beginPeriod(ctx context.Context) {
	if !r.c.Once {
		return
	}
	r.period = r.c.periodOf(time.Now())
	late := time.AfterFunc(time.Until(r.period.end()), func() {
		r.mu.Lock()
		r.late = true
		r.mu.Unlock()
		r.giveUp(exitTaken, periodOver)
	})
	context.AfterFunc(ctx, func() { late.Stop() })
}

const periodOver = "the period of --once is over, and this host did not get to lead in it"

// limit begins to look, until ctx is done, for what else ends leader run before
// it leads. For --once that is another host's note, which a watch tells: most
// hosts end by it at once, without having led. Neither this nor the end of the
// period decides whether the program may start; first does.
func (r *runner) limit(ctx context.Context) {
	if r.c.Try {
		go r.attempt(ctx)
	}
	if r.c.Once && r.watchRuns(ctx) != nil {
		go r.watchRunsLater(ctx)
	}
}

// watchRuns begins the watch of another host's note.
func (r *runner) watchRuns(ctx context.Context) error {
	_, err := r.keys.Watch(ctx, []string{inspect.ControlKey(r.c.Group)}, func(e store.Entry) {
		if c, ok := inspect.ReadControl(e); ok && r.had(c.Ran) {
			go func() { // the watch does not wait
				if r.credible(ctx, e, *c.Ran) {
					r.giveUp(app.ExitOK, r.period.describe(*c.Ran))
				}
			}()
		}
	})
	return err
}

// credible reports whether a host can have noted the run in a control entry. No
// host notes a run that begins more than a period after the server's time
// (isAhead). If the server does not report when it stored this entry, every run
// is credible.
func (r *runner) credible(ctx context.Context, e store.Entry, ran inspect.Run) bool {
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	at, revision, err := r.storedAt(ctx, e.Key)
	if err != nil || at.IsZero() || revision != e.Revision || !ran.Begin.After(at.Add(r.period.every)) {
		return true
	}
	r.say("--once: ignoring the noted run of %s: it begins more than %v after the server stored the note, at %s",
		ran.Begin.Format(time.DateTime), r.period.every, at.Format(time.DateTime))
	return false
}

// watchRunsLater begins the watch as soon as it can be. The bucket may not be
// there yet, since a candidate makes it, and the server may be away: the first
// failure is no news, and the next is told once.
func (r *runner) watchRunsLater(ctx context.Context) {
	for told := false; sleep(ctx, watchInterval); {
		err := r.watchRuns(ctx)
		if err == nil || errors.Is(err, store.ErrClosed) {
			return
		}
		if !told && ctx.Err() == nil {
			told = true
			r.say("--once: other hosts' runs cannot be watched yet: %v", err) // who leads reads
		}
	}
}

// watchInterval is the time from one attempt to begin the watch to the next.
const watchInterval = time.Second

// had reports whether another process has begun the run of the period. What
// this one has noted is none: the term may have ended before its program
// started, and the note is seen again, after a reconnection for example.
func (r *runner) had(ran *inspect.Run) bool {
	if !r.period.had(ran) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.noted, ran.Equal)
}

// first notes that this host begins the run of the period, and reports whether
// it is the first to do so. If not, or if it may not, leader run ends. It runs
// in the term, so that one host at a time writes, and writes by
// compare-and-swap, since the one before may be frozen within its own call.
func (r *runner) first(ctx context.Context, term leader.Term) bool {
	if r.isAhead(ctx) {
		r.say("this host's clock is ahead of the server's by more than %v: what it notes would keep the others away", r.period.every)
		r.finish(app.ExitFailure)
		return false
	}
	for backoff := 10 * time.Millisecond; ; backoff = min(2*backoff, time.Second) {
		before, err := r.note(ctx, term)
		switch {
		case err == nil && before == nil:
			return true
		case err == nil:
			r.say("%s", r.period.describe(*before))
			r.finish(app.ExitOK)
			return false
		// Without the note another host might begin the same run. So the
		// program is not started, and what may pass is tried again.
		case store.Classify(err) == store.Permanent:
			r.say("--once: the run cannot be noted: %v", err)
			r.finish(app.ExitCode(err))
			return false
		}
		if !sleep(ctx, backoff) {
			return false
		}
	}
}

// isAhead reports whether this host's clock is too far ahead of the one by
// which the server has stored its claim. A server that does not say is not
// waited for any longer.
func (r *runner) isAhead(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	at, _, err := r.storedAt(ctx, r.c.Group)
	return err == nil && !at.IsZero() && r.period.ahead(at)
}

// note writes into the control record that the run of the period has begun,
// unless that is noted already, and returns what is then. An outcome that is
// unknown is an error as well: the next call finds the mark of this one, or
// writes it.
func (r *runner) note(ctx context.Context, term leader.Term) (before *inspect.Run, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	key := inspect.ControlKey(r.c.Group)
	entry, err := r.keys.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if c, ok := inspect.ReadControl(entry); ok && r.had(c.Ran) && r.credible(ctx, entry, *c.Ran) {
		return c.Ran, nil
	}
	mark := inspect.Run{Begin: r.period.begin, ID: r.cfg.InstanceID, Term: term.Number}
	value, err := inspect.NoteRun(entry, mark)
	if err != nil {
		return nil, err
	}
	// Before it is written: the watch may see it before the answer comes, and
	// none need come.
	r.mu.Lock()
	if !slices.ContainsFunc(r.noted, mark.Equal) {
		r.noted = append(r.noted, mark)
	}
	r.mu.Unlock()
	_, err = r.keys.CompareAndSwap(ctx, store.Write{Key: key, Expected: entry.Revision, Value: value})
	return nil, err
}

// attemptInterval is the longest time between two looks of --try. The first
// ones come sooner, since --try mostly finds a leader that lives: cron starts
// it each minute on each host.
const attemptInterval = 200 * time.Millisecond

// A holder is another candidate that holds a record, as --try sees it. What is
// seen later is compared with the first look at a term, by this host's clock
// alone.
type holder struct {
	term     uint64
	revision uint64
	since    time.Time
}

// attempt ends leader run when all that it stands for is taken, and when the
// server is not reached. It goes on after giveUp, which a term that has just
// begun refuses: when that term is lost, another may lead.
func (r *runner) attempt(ctx context.Context) {
	begun := time.Now()
	holders := make(map[*seat]holder)
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

// taken says why this host is not to lead any of its groups now, and is empty
// if it may yet. One free seat is enough to stay for.
func (r *runner) taken(ctx context.Context, holders map[*seat]holder) (why string) {
	for _, s := range r.seats {
		if why = r.seatTaken(ctx, s, holders); why == "" {
			return ""
		}
	}
	return why
}

// seatTaken is taken for one seat. A follower without a leader campaigns, and
// one that follows a record without a sign of life waits for its lease: neither
// is a reason to end, since then nobody would run the program.
func (r *runner) seatTaken(ctx context.Context, s *seat, holders map[*seat]holder) string {
	st := s.e.Status()
	switch {
	case st.Barred == leader.ReasonPaused || st.Barred == leader.ReasonUnhealthy:
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
// Where the server does not say when, one that is still followed after its
// lease does.
func (r *runner) lives(ctx context.Context, s *seat, st leader.ElectionStatus, holders map[*seat]holder) bool {
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
	// lease itself, whose length the record of another program may not tell.
	lease := info.Until.Sub(h.since)
	switch {
	case info.Term != st.LeaderTerm:
		return false // it has just taken over: another look
	case err != nil || at.IsZero():
		return time.Now().After(info.Until.Add(time.Second))
	}
	return revision != h.revision || time.Since(at) < lease
}
