package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// A Handover is the outcome of a request, as seen by the caller that made it.
type Handover struct {
	// Request is the request as it was made, with the term that it named.
	Request Request
	// From is the leader that was asked. Its ID is empty if nobody led or it
	// was not seen.
	From LeaderInfo
	// Vacancy is what it left: why, and who asked for it. It is zero if nobody
	// left, and if it was not seen because the next leader was too fast. A
	// lease that ran out is ReasonExpired.
	Vacancy LeaderInfo
	// Filed reports that the request is stored. An error then contains its
	// outcome, or why the outcome was not seen.
	Filed bool
	// Obeyed reports that the vacancy answers this request.
	Obeyed bool
	// To is who took over. It holds the record; where leaders cool down before
	// they are promoted (ElectionConfig.AcquireGrace), it acts that much later.
	// Zero if nobody has, and for OpPause.
	To LeaderInfo
	// Drain is the time from the request until the vacancy was seen: the leader
	// stopped its work meanwhile.
	Drain time.Duration
	// Gap is how long nobody led: from when the vacancy was seen until the next
	// leader was. If the vacancy was not seen, and for OpResume, it counts from
	// the request.
	Gap time.Duration
}

// Ask makes the request and waits for its effect, until ctx is done. OpStepDown
// and OpTransfer return when another term has started, OpPause when nobody
// leads, OpResume when somebody does.
//
// The Handover contains as much as was seen, also with an error:
//
//   - ErrNoLeader: there was nobody to ask, or nobody has taken over, while ctx
//     lasted
//   - ErrTermOver: the term did not end by this request: it was over before,
//     the leader left for another reason, or it fell silent and another took
//     over from it
//   - ErrNotSuccessor: OpTransfer was obeyed, but the successor was not there
//     in time
//   - additionally the error of ctx, if that is why Ask returns: a stored
//     request remains until its term ends
//   - the errors of File
//
// Ask needs the right to read the group's record. If it may also watch it, as
// observers do, it hears at once what happens; else it reads ten times a second
// and may miss the vacancy.
func (c *Control) Ask(ctx context.Context, r Request) (Handover, error) {
	r, err := c.signed(r)
	h := &handing{h: Handover{Request: r, From: LeaderInfo{Group: r.Group}}}
	if err != nil {
		return h.h, err
	}
	look, err := c.lookOut(ctx, r.Group)
	if err != nil {
		return h.h, err
	}
	defer look.stop()
	before := look.before()
	r, err = r.naming(newest(before).info)
	if h.h.Request = r; err != nil {
		return h.h, err
	}
	for _, s := range before {
		h.arrived(s)
	}
	switch {
	case h.over():
		return h.h, h.verdict(nil)
	case r.Successor != "" && r.Successor == h.h.From.ID:
		return h.h, leadsAlready(r)
	}
	h.sent = time.Now()
	if err := controlrecord.Change(ctx, c.st, r.Group, r.change); err != nil {
		return h.h, err
	}
	h.h.Filed = true
	for !h.done(time.Now()) {
		s, err := look.next(ctx, h.deadline())
		if err == nil && s.rev == 0 {
			s, err = look.again(ctx, h.last.rev)
		}
		if err != nil {
			return h.h, h.verdict(err)
		}
		h.arrived(s)
	}
	return h.h, h.verdict(nil)
}

// A handing is a request whose effect is awaited.
type handing struct {
	h       Handover
	sent    time.Time // when the request left, zero before
	left    time.Time // when the vacancy was seen
	renewed time.Time // when the leader was seen last
	last    observed  // the latest state of the record
	checked time.Time // when it was read last that this is so
	since   uint64    // the record's revision before the request
}

// observed is a state of the record, and when it arrived.
type observed struct {
	info LeaderInfo
	seen machine.Seen
	rev  uint64
	at   time.Time
	read time.Time // when a read of it began, zero for news
}

// current reports whether it was read, and not as it was before a revision that
// is known: a replica may lag. A record that is gone has none.
func (s *observed) current(known uint64) bool {
	return !s.read.IsZero() && (s.rev >= known || s.rev == 0)
}

// arrived takes in a state of the record. That of the time before the request
// is where the wait begins.
func (w *handing) arrived(s observed) {
	if s.current(w.last.rev) {
		w.checked = s.read
	}
	if s.rev <= w.last.rev && w.last.rev != 0 {
		return // old news, and no renewal
	}
	if w.sent.IsZero() {
		w.since = s.rev
	}
	if before, ok := leadership.VacancyAfter(w.last.info.info(), s.seen); ok && !w.sent.IsZero() {
		w.arrivedAs(observed{info: infoOf(before), rev: s.rev, at: s.at})
	}
	w.last = s
	w.arrivedAs(s)
}

// arrivedAs takes in one state of the group.
func (w *handing) arrivedAs(s observed) {
	switch w.h.Request.Op {
	case OpPause:
		w.pausing(s)
	case OpResume:
		w.resuming(s)
	default:
		w.leaving(s)
	}
}

// leaving follows the end of the term that was asked to end.
func (w *handing) leaving(s observed) {
	h, term := &w.h, w.h.Request.Term
	switch {
	case s.info.Term == term && s.info.ID != "":
		h.From, w.renewed = s.info, s.at
	case s.info.Term == term:
		w.vacated(s)
	case s.info.Term > term && s.info.ID != "":
		h.To = s.info
		switch {
		case !w.left.IsZero():
			h.Gap = s.at.Sub(w.left)
		case !w.sent.IsZero():
			h.Gap = s.at.Sub(w.sent)
		}
	}
}

func (w *handing) vacated(s observed) {
	if !w.left.IsZero() {
		return
	}
	w.h.Vacancy, w.left = s.info, s.at
	if !w.sent.IsZero() {
		w.h.Drain = s.at.Sub(w.sent)
	}
	w.h.Obeyed = w.h.Request.obeyedBy(s.info)
}

func (w *handing) pausing(s observed) {
	switch {
	case s.info.ID != "":
		// Also after a vacancy: a claim that was under way when the group was
		// paused.
		w.h.From, w.h.Vacancy, w.h.Obeyed, w.h.Drain, w.left = s.info, LeaderInfo{}, false, 0, time.Time{}
	case w.h.From.ID != "":
		w.vacated(s)
	}
}

func (w *handing) resuming(s observed) {
	if s.info.ID != "" && s.rev > w.since && !w.sent.IsZero() {
		w.h.To, w.h.Gap = s.info, s.at.Sub(w.sent)
	}
}

// over reports whether there is nothing to wait for, and nothing to ask.
func (w *handing) over() bool {
	term := w.h.Request.Term
	return term != 0 && (w.last.info.Term > term || w.last.info.Term == term && w.last.info.ID == "")
}

func (w *handing) done(now time.Time) bool {
	if w.h.Request.Op != OpPause {
		return w.h.To.ID != ""
	}
	// A lease has run out if the record was read after its end: who was cut off
	// meanwhile has missed the renewals.
	if from := w.h.From; w.left.IsZero() && from.ID != "" && !now.Before(from.Until) && !w.checked.Before(from.Until) {
		w.vacated(observed{info: from.asOf(now), at: now})
	}
	return w.h.From.ID == "" || !w.left.IsZero()
}

// deadline is when there is something to do without news.
func (w *handing) deadline() time.Time {
	if w.h.Request.Op == OpPause {
		return w.h.From.Until
	}
	return time.Time{}
}

// asOf returns the info as it reads at now.
func (l LeaderInfo) asOf(now time.Time) LeaderInfo { return infoOf(l.info().AsOf(now)) }

// verdict returns the outcome of the request. waiting is why the wait ended
// early, if it did.
func (w *handing) verdict(waiting error) error {
	h, r := &w.h, w.h.Request
	if waiting != nil {
		return w.unfinished(waiting)
	}
	if r.Op == OpPause || r.Op == OpResume {
		return nil
	}
	switch {
	case w.sent.IsZero(), w.left.IsZero() && w.last.at.Before(w.sent):
		return fmt.Errorf("%w: term %d had ended before the request: %s", ErrTermOver, r.Term, describe(w.last.info))
	case w.left.IsZero() && w.silent():
		h.Vacancy = LeaderInfo{Group: r.Group, Term: r.Term, Reason: ReasonExpired}
		return fmt.Errorf("%w: %q did not answer, and fell silent: %s", ErrTermOver, h.From.ID, describe(h.To))
	case !w.left.IsZero() && !h.Obeyed:
		return fmt.Errorf("%w: %s: %s", ErrTermOver, describe(h.Vacancy), describe(h.To))
	case r.Op == OpTransfer && h.To.ID != r.Successor:
		return fmt.Errorf("%w: %q was asked to hand over to %q: %s", ErrNotSuccessor, h.From.ID, r.Successor, describe(h.To))
	}
	return nil
}

// silent reports whether the leader had not renewed for half its lease when
// another took over: its vacancy was not missed then, there was none.
func (w *handing) silent() bool {
	from := w.h.From
	return from.ID != "" && w.last.at.Sub(w.renewed) > max(from.Until.Sub(w.renewed)/2, 2*lookoutPoll)
}

// obeyedBy reports whether a vacancy answers the request.
func (r Request) obeyedBy(v LeaderInfo) bool {
	want := ReasonSteppedDown
	switch r.Op {
	case OpTransfer:
		want = ReasonTransferred
	case OpPause:
		want = ReasonPaused
	default:
	}
	return v.Reason == want && v.By == r.By && v.Why == r.Why && v.Successor == r.Successor
}

// unfinished describes how far the request has come.
func (w *handing) unfinished(waiting error) error {
	from, r := w.h.From, w.h.Request
	now := time.Now()
	last := w.last.info.asOf(now)
	switch {
	case r.Op == OpPause:
		return fmt.Errorf("leader: the group is paused, and %q has not left term %d yet: %w", from.ID, from.Term, waiting)
	case r.Op == OpResume && last.ID != "":
		return fmt.Errorf("%w: the pause is over, and %q, who holds the record of term %d, has not renewed it: %w", ErrNoLeader, last.ID, last.Term, waiting)
	case r.Op == OpResume:
		return fmt.Errorf("%w: the pause is over, and nobody has taken over: %s: %w", ErrNoLeader, describe(last), waiting)
	case !w.left.IsZero():
		return fmt.Errorf("%w: %q left term %d, and nobody has taken over: %s: %w", ErrNoLeader, from.ID, r.Term, describe(w.h.Vacancy), waiting)
	case from.ID == "":
		return fmt.Errorf("%w: nobody was seen to lead term %d, and the request stays in force: %w", ErrNoLeader, r.Term, waiting)
	case !now.Before(from.Until) && w.checked.Before(from.Until):
		// A caller that was cut off meanwhile has missed the renewals, or the
		// end.
		return fmt.Errorf("leader: %q led term %d when the record was read last, and the request stays in force: %w", from.ID, r.Term, waiting)
	case !now.Before(from.Until):
		w.h.Vacancy = from.asOf(now)
		return fmt.Errorf("%w: %q did not answer, its lease ran out, and nobody has taken over: %w", ErrNoLeader, from.ID, waiting)
	}
	return fmt.Errorf("leader: %q still leads term %d, and the request stays in force: %w", from.ID, r.Term, waiting)
}

// lookoutPoll is how often a record is read that cannot be watched (yet),
// watchedPoll how often a watched one is: without the right to subscribe, a
// watch may run and receive nothing.
const (
	lookoutPoll = 100 * time.Millisecond
	watchedPoll = time.Second
)

// A lookout reports the states of one group's record. Unlike an observation it
// keeps states that were replaced meanwhile: it exists to see a vacancy that
// lasted for a millisecond.
type lookout struct {
	c      *Control
	group  string
	first  observed
	stop   func()
	wake   chan struct{} // holds one if something waits
	read   time.Time     // when the record was read last
	polled *time.Ticker

	mu      sync.Mutex
	waiting []observed
	watched bool
	ready   chan struct{} // closed when the watch runs, or cannot
}

// lookoutBegin bounds the wait for the watch, which notices late that a
// permission is missing.
const lookoutBegin = time.Second

// lookOut returns when the current state is known, and the watch runs if it
// can.
func (c *Control) lookOut(ctx context.Context, group string) (*lookout, error) {
	entry, err := c.get(ctx, group)
	if err != nil {
		return nil, err
	}
	l := &lookout{c: c, group: group, wake: make(chan struct{}, 1), polled: time.NewTicker(lookoutPoll), ready: make(chan struct{}), read: time.Now()}
	l.first = l.observe(entry)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A watch that panics is one that fails: the record is read instead.
		shield.Call(func() { l.watch(ctx) }, func(any, []byte) { l.unwatched() })
	}()
	l.stop = func() {
		cancel()
		<-done
		l.polled.Stop()
	}
	begin := time.NewTimer(lookoutBegin)
	defer begin.Stop()
	select {
	case <-l.ready:
	case <-begin.C:
	case <-ctx.Done():
	}
	return l, nil
}

// before returns what is known of the record so far, in the order in which it
// arrived: what was read, and what the watch began with. A replica that lags
// answered the read, maybe.
func (l *lookout) before() []observed {
	states := []observed{l.first}
	for s, ok := l.take(); ok; s, ok = l.take() {
		states = append(states, s)
	}
	return states
}

// newest returns the latest of some states of the record. There is at least
// one.
func newest(states []observed) observed {
	last := states[0]
	for _, s := range states[1:] {
		if s.rev > last.rev {
			last = s
		}
	}
	return last
}

func (l *lookout) observe(e store.Entry) observed {
	now := time.Now()
	info, seen := leadership.Of(l.group, e, now)
	return observed{info: infoOf(info), seen: seen, rev: e.Revision, at: now}
}

// watch fills waiting until ctx is done.
func (l *lookout) watch(ctx context.Context) {
	ready := sync.OnceFunc(func() { close(l.ready) })
	defer ready()
	w, ok := l.c.st.(store.Watcher)
	if !ok {
		return
	}
	stop, err := w.Watch(ctx, []string{l.group}, func(e store.Entry) {
		l.put(l.observe(e))
		ready()
	})
	if err != nil {
		l.unwatched()
		return
	}
	<-ctx.Done()
	stop()
}

// unwatched takes in that the watch is over: what it delivered before was the
// last, and the record is read instead.
func (l *lookout) unwatched() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = false
}

func (l *lookout) put(s observed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = true
	l.waiting = append(l.waiting, s)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lookout) take() (s observed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return observed{}, false
	}
	s = l.waiting[0]
	l.waiting = l.waiting[1:]
	return s, true
}

func (l *lookout) isWatched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched
}

// next returns the next state, or none, with revision 0, if there is none until
// the deadline. It fails when ctx is done, and when the record cannot be read
// any more.
func (l *lookout) next(ctx context.Context, deadline time.Time) (observed, error) {
	var due <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		due = t.C
	}
	for {
		if s, ok := l.take(); ok {
			return s, nil
		}
		select {
		case <-l.wake:
		case <-l.polled.C:
			if l.isWatched() && time.Since(l.read) < watchedPoll {
				continue
			}
			if s, ok, err := l.look(ctx); ok || err != nil {
				return s, err
			}
		case <-due:
			return observed{}, nil
		case <-ctx.Done():
			return observed{}, ended(ctx)
		}
	}
}

// again returns the current state as it is read from now on, or news that come
// before. It fails as next does.
func (l *lookout) again(ctx context.Context, known uint64) (observed, error) {
	for {
		if s, ok, err := l.look(ctx); ok && s.current(known) || err != nil {
			return s, err
		}
		if s, ok := l.take(); ok {
			return s, nil
		}
		select {
		case <-l.wake:
		case <-l.polled.C:
		case <-ctx.Done():
			return observed{}, ended(ctx)
		}
	}
}

// look reads the record. It reports false if it cannot be read now, and fails if
// it cannot be read any more: it could be before, so the bucket was deleted, or a
// permission taken away.
func (l *lookout) look(ctx context.Context) (s observed, ok bool, err error) {
	l.read = time.Now()
	entry, err := l.c.tryGet(ctx, l.group)
	switch store.Classify(err) {
	case store.OK:
		s = l.observe(entry)
		s.read = l.read
		return s, true, nil
	case store.Permanent:
		return observed{}, false, err
	default:
		return observed{}, false, nil
	}
}

// ended returns the cause of the end of ctx, joined with the error of ctx.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}
