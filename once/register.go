package once

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// ErrClockAhead is the error of a host whose clock is so far ahead of the
// server's clock that its note would keep other hosts from starting a run.
var ErrClockAhead = errors.New("once: this host's clock is more than a period ahead of the server's clock")

// A Register notes that this candidate starts the run of one period, and finds
// the notes of others. It is for programs that run their own elections, in which
// one host at a time leads Group; for others there is [Run].
//
// Set the fields before the first call. Methods may be called concurrently.
type Register struct {
	// Store contains the notes. [Register.Watch] has no effect if it is not a
	// store.Watcher. Required.
	Store store.Store
	// Group is the group of the election, and ID the candidate's InstanceID.
	// Required. inspect.RanKey(Group) must be a valid key.
	Group, ID string
	// Period is the period in which the run is to start. Required.
	Period Period
	// Timeout bounds each attempt to read and write the notes, and each request
	// to StoredAt. Required.
	Timeout time.Duration
	// StoredAt, optional, returns when the server stored the entry of a key, by
	// the server's clock, and the entry's revision. The zero time means unknown.
	// Without it the clocks of hosts are not compared with the server's clock.
	StoredAt func(ctx context.Context, key string) (at time.Time, revision uint64, err error)
	// Warn, optional, receives problems that the register works around, as
	// sentences for people. It may be called concurrently.
	Warn func(text string)

	mu    sync.Mutex
	noted []inspect.Run // what this candidate has noted, or may have
}

// Note notes that this candidate starts the run of the period, and returns nil
// if it is the first to do so; otherwise it returns the run that another
// candidate has noted, of this period or a later one. Call it in the term with
// that number, with the term's context, and start the work only if it returns
// (nil, nil) and the term still lasts. After a term that ended before the work
// started, Note may be called again in a later term.
//
// It repeats what failed or has an unknown outcome until ctx is done. Errors
// match [ErrClockAhead], store.ErrPermanent if somebody has to repair the store
// or its permissions, and context.Cause(ctx). After an error the run may have
// been noted, and other candidates then do not start it.
func (r *Register) Note(ctx context.Context, term uint64) (by *inspect.Run, err error) {
	pace := backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second}
	for attempt := 1; ; attempt++ {
		by, err := r.note(ctx, term)
		if err == nil || store.Classify(err) == store.Permanent || errors.Is(err, ErrClockAhead) {
			return by, err
		}
		if !backoff.Sleep(ctx, pace.After(attempt)) {
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// note writes at each key that the run of the period starts, unless one of them
// contains another candidate's note, which it returns. Both are read before one
// is written. An unknown outcome is an error: the next call finds the mark of
// this one, or writes it. Each write is a compare-and-swap, since the leader
// before may be frozen within its own call.
func (r *Register) note(ctx context.Context, term uint64) (by *inspect.Run, err error) {
	if r.ahead(ctx, term) {
		return nil, ErrClockAhead
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	mark := inspect.Run{Begin: r.Period.Begin, ID: r.ID, Term: term}
	var writes []store.Write
	for _, key := range r.keys() {
		entry, err := r.Store.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if run := r.foreign(ctx, entry); run != nil {
			return run, nil
		}
		value, err := inspect.NoteRun(entry, mark)
		if err != nil {
			return nil, err
		}
		writes = append(writes, store.Write{Key: key, Expected: entry.Revision, Value: value})
	}
	// Before it is written: the watch may deliver it before the answer comes, and
	// the answer may be lost.
	r.mu.Lock()
	if !slices.ContainsFunc(r.noted, mark.Equal) {
		r.noted = append(r.noted, mark)
	}
	r.mu.Unlock()
	for _, w := range writes {
		if _, err := r.Store.CompareAndSwap(ctx, w); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Watch calls found with each note of another candidate that counts for the
// period, until ctx is done. It waits for the first attempt to begin the watch
// alone. An attempt that fails is repeated each second, and the second failure
// is reported to Warn, since the first candidates make the bucket. found runs on
// a separate goroutine and may be called more than once. It is news only:
// [Register.Note] decides.
func (r *Register) Watch(ctx context.Context, found func(inspect.Run)) {
	w, ok := r.Store.(store.Watcher)
	if !ok || r.watch(ctx, w, found) == nil {
		return
	}
	go func() {
		for failures := 1; backoff.Sleep(ctx, watchInterval); failures++ {
			err := r.watch(ctx, w, found)
			if err == nil || errors.Is(err, store.ErrClosed) {
				return
			}
			if failures == 1 && ctx.Err() == nil {
				r.warn("runs of other hosts cannot be watched yet: %v", err) // Note reads
			}
		}
	}()
}

// watchInterval is the time from one attempt to begin the watch to the next.
const watchInterval = time.Second

func (r *Register) watch(ctx context.Context, w store.Watcher, found func(inspect.Run)) error {
	_, err := w.Watch(ctx, r.keys(), func(e store.Entry) {
		if c, ok := inspect.ReadControl(e); ok && r.counts(c.Ran) {
			go r.shielded(func() { // the watch does not wait
				if run := r.foreign(ctx, e); run != nil {
					found(*run)
				}
			})
		}
	})
	return err
}

// keys returns the keys at which a run is noted, in the order in which they are
// written. Hosts of versions before the run's own key read and write the control
// record alone, so one of them and this host exclude each other there. The run's
// own key is first: a host without the right to write it has then noted nothing.
func (r *Register) keys() []string {
	return []string{inspect.RanKey(r.Group), inspect.ControlKey(r.Group)}
}

// foreign returns the run that an entry contains, if another candidate noted it
// and it counts.
func (r *Register) foreign(ctx context.Context, e store.Entry) *inspect.Run {
	c, ok := inspect.ReadControl(e)
	if !ok || !r.counts(c.Ran) || !r.credible(ctx, e, *c.Ran) {
		return nil
	}
	return c.Ran
}

// counts reports whether another candidate has noted the run of this period or
// of a later one. A later run counts, since this host is late or its clock is
// behind, and work started now would be the second of a period. A note of this
// register does not count: the term may have ended before the work started.
func (r *Register) counts(run *inspect.Run) bool {
	if run == nil || run.Begin.Before(r.Period.Begin) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.noted, run.Equal)
}

// credible reports whether a host can have noted the run in an entry. No host
// notes a run that begins more than a period after the server's time (ahead). If
// the server does not report when it stored this entry, every run is credible.
func (r *Register) credible(ctx context.Context, e store.Entry, run inspect.Run) bool {
	at, revision, known := r.storedAt(ctx, e.Key)
	if !known || revision != e.Revision || !run.Begin.After(at.Add(r.length())) {
		return true
	}
	r.warn("ignoring the noted run of %s: it begins more than %v after the server stored the note, at %s",
		run.Begin.Format(time.DateTime), r.length(), at.Format(time.DateTime))
	return false
}

// ahead reports whether this host's clock is too far ahead of the clock by which
// the server has stored the host's claim, whose revision is the term's number,
// or a later renewal. A difference of one period is allowed: hosts whose clocks
// are apart by less exclude one another.
func (r *Register) ahead(ctx context.Context, term uint64) bool {
	at, revision, known := r.storedAt(ctx, r.Group)
	return known && revision >= term && r.Period.Begin.After(at.Add(r.length()))
}

func (r *Register) length() time.Duration { return r.Period.End.Sub(r.Period.Begin) }

func (r *Register) storedAt(ctx context.Context, key string) (at time.Time, revision uint64, known bool) {
	if r.StoredAt == nil {
		return time.Time{}, 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	at, revision, err := r.StoredAt(ctx, key)
	return at, revision, err == nil && !at.IsZero()
}

func (r *Register) warn(format string, args ...any) {
	if r.Warn != nil {
		r.Warn(fmt.Sprintf(format, args...))
	}
}

// shielded calls f, whose panic must not end the program.
func (r *Register) shielded(f func()) {
	shield.Call(f, func(value any, stack []byte) { r.warn("%s", shield.Text("the watch of runs", value, stack)) })
}
