package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/polled"
	"github.com/seed-ff2cb582/leader/internal/preference"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// A storeIO makes the calls to the store that the core asks for, and follows
// the store's records and its connection. Whatever comes of them goes into the
// inbox. It decides nothing, and keeps nothing of the protocol: a call that
// ends is an event, whatever its outcome.
type storeIO struct {
	env *env
	// stop, set once the watch runs, ends it. The watch ends with the context
	// of all I/O too, but only stop waits for its end. It needs no lock: the
	// goroutine that sets it has ended when unwatch looks.
	stop func()
	// flights is a list of those that may be outstanding, the loop's.
	flights *flight
	// doubted, if the start reported that the store is new, is the time until
	// which nobody leads in it. It needs no lock: the check has ended when the
	// core asks for an age. Few candidates need the room.
	doubted *time.Time
}

// draft encodes the write that a Send of the core asks for. transitions and
// acquired are of the term that it is about, renewed is when it leaves. The
// loop calls it, and keeps the draft: by that it knows its own write again when
// the watch brings it back, and parses nothing.
func (s *storeIO) draft(
	a *machine.Action, known preference.Standings, transitions uint64, acquired, renewed record.Moment,
) (*record.Draft, error) {
	cfg := &s.env.cfg
	about := record.About{
		Meta: cfg.Meta, Address: cfg.Address, Params: cfg.Params, Version: cfg.Standing.Version, Drift: cfg.ClockDrift, Standings: known,
		Transitions: transitions, Acquired: acquired, Renewed: renewed,
	}
	d, err := record.NewDraft(&a.Rec, &about, a.Expected)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	// A vacancy is a tombstone: the tools of the store then show no leader.
	d.Key, d.Tombstone = cfg.Group, a.Write == machine.Release
	return d, nil
}

// send performs a Send of the core: one compare-and-swap. err is why there is
// no draft.
func (s *storeIO) send(kind machine.WriteKind, op uint64, d *record.Draft, err error) {
	e := s.env
	ctx, cancel := e.bounded()
	defer cancel()
	// For the report alone: the core counts trust from when it asked.
	sent := time.Now()
	var rev uint64
	faults.Point("send")
	if d != nil {
		rev, err = e.store.CompareAndSwap(ctx, d.Write)
	}
	e.inbox.put(written(kind, op, sent, rev, err))
}

// A flight is a write that nobody waits for.
type flight struct {
	next    *flight
	ended   atomic.Bool
	pending store.Pending
}

// begin performs a Send of the core as send does, without a goroutine that
// waits for the answer.
func (s *storeIO) begin(st store.AsyncWriter, kind machine.WriteKind, op uint64, d *record.Draft) {
	e, sent := s.env, time.Now()
	f := &flight{next: s.flights}
	s.flights = f
	// The end waits for the answer as it does for goroutines: a late one must
	// find an inbox and a log.
	e.work.Add(1)
	f.pending = e.store.compareAndSwapAsync(st, sent.Add(e.cfg.ConnectionTimeout), d.Write, func(rev uint64, err error) {
		if f.ended.Swap(true) {
			return // a store that answers twice
		}
		defer e.work.Done()
		e.guard("answer", func() { e.inbox.put(written(kind, op, sent, rev, err)) })
	})
}

// written returns the message about the end of a write.
func written(kind machine.WriteKind, op uint64, sent time.Time, rev uint64, err error) *message {
	// The message and the call share one allocation, since each renewal ends
	// here.
	m := &struct {
		message

		of Call
	}{of: Call{Kind: kind.String(), Sent: sent, Took: time.Since(sent), Outcome: store.Classify(err), Err: err}}
	// Whatever the outcome is, the core hears of it: rule 4 resolves what is
	// unknown, and nothing here repeats a write.
	m.call, m.event = &m.of, machine.Event{Kind: machine.Written, Op: op, Outcome: outcomeOf(m.of.Outcome), Rev: rev}
	return &m.message
}

// landed forgets the flights that have ended. The loop calls it with each
// answer, so that the list stays as short as what is under way.
func (s *storeIO) landed() {
	for at := &s.flights; *at != nil; {
		if (*at).ended.Load() {
			*at = (*at).next
		} else {
			at = &(*at).next
		}
	}
}

// abandon ends the wait for the answers to flights. That for other writes ends
// with the context of all I/O. Otherwise an answer that is lost would hold up
// the end of the election for ConnectionTimeout.
func (s *storeIO) abandon() {
	for f := s.flights; f != nil; f = f.next {
		if f.pending != nil {
			shield.Call(f.pending.Cancel, s.env.report.panicked("the store's Cancel"))
		}
	}
}

// look performs a Look of the core: one read. It is not news by itself, since
// any replica may have answered: the core judges it by what it knows.
func (s *storeIO) look(op uint64) {
	e := s.env
	ctx, cancel := e.bounded()
	defer cancel()
	call := Call{Kind: callRead, Sent: time.Now()}
	entry, err := e.store.Get(ctx, e.cfg.Group)
	call.Took, call.Outcome, call.Err = time.Since(call.Sent), store.Classify(err), err
	m := &message{call: &call, event: machine.Event{Kind: machine.Read, Op: op, Outcome: outcomeOf(call.Outcome)}}
	// A failed read does not describe the record: the core hears of the outcome
	// alone.
	if err == nil {
		m.entry = &entry
	}
	e.inbox.put(m)
}

// check checks the store, and returns the conditions that suit it. The caller
// decides whether the error is permanent: Start returns it then, and join goes
// on trying.
func (s *storeIO) check(ctx context.Context) (Conditions, error) {
	e := s.env
	// A check makes several calls, and the timeout of a short lease is meant
	// for one.
	ctx, cancel := context.WithTimeout(ctx, max(e.cfg.ConnectionTimeout, 2*time.Second))
	defer cancel()
	var report store.Report
	if c, ok := e.store.st.(store.Checker); ok {
		var err error
		report, err = e.store.check(ctx, c, store.CheckRequest{
			TTL: e.cfg.TTL, HeartbeatInterval: e.cfg.HeartbeatInterval,
			Key: e.cfg.Group, Reads: []string{record.ControlKey(e.cfg.Group)},
		})
		if err != nil {
			return Conditions{}, err
		}
	}
	conditions := e.cfg.conditions(report)
	for _, w := range report.Warnings {
		if e.warns(w) {
			e.report.tell(NoteWarning, w)
		}
	}
	if conditions.doubt > 0 {
		until := time.Now().Add(conditions.doubt)
		s.doubted = &until
		s.sayYoung(conditions.doubt)
	}
	return conditions, nil
}

// examine performs an Examine of the core: it asks the store for its age. The
// check at the start does not do, since the store may have been made again
// between that and the claim.
func (s *storeIO) examine(op uint64) {
	e := s.env
	ctx, cancel := e.bounded()
	defer cancel()
	ev := machine.Event{Kind: machine.Examined, Op: op, Outcome: machine.Unknown}
	if c, ok := e.store.st.(store.Checker); ok {
		// Without a key, since what this user may do was found out at the
		// start.
		report, err := e.store.check(ctx, c, store.CheckRequest{TTL: e.cfg.TTL})
		switch {
		case err != nil:
			ev.Outcome = outcomeOf(store.Classify(err))
			e.report.failed(err)
		case report.Age > 0:
			ev.Outcome, ev.Doubt = machine.OK, e.cfg.doubt(report.Age)
		}
	}
	// Log why a claim that was granted is not promoted yet, unless the start
	// logged it.
	switch {
	case ev.Outcome != machine.OK:
		if e.warns(ageless) {
			e.report.tell(NoteWarning, ageless)
		}
	case ev.Doubt > 0 && (s.doubted == nil || time.Now().After(*s.doubted)):
		s.sayYoung(ev.Doubt)
	}
	e.inbox.event(ev)
}

const (
	ageless = "The store did not report its age when a record was claimed in it for the first time. If it was made again just before," +
		" a leader of the earlier store may not know yet: nobody leads before that lease has run out."
	young = "The store was made less than a lease ago. If there was another of its name before, its leader may not have heard yet that it is gone"
)

// sayYoung logs why nobody leads yet, and when somebody will: otherwise an
// operator who makes a bucket and waits for its first leader would look for a
// fault.
func (s *storeIO) sayYoung(doubt time.Duration) {
	if s.env.warns(young) {
		s.env.report.tell(NoteWaiting, fmt.Sprintf("%s: nobody leads before %s, in %v.", young, time.Now().Add(doubt).Format(time.TimeOnly), doubt.Round(100*time.Millisecond)))
	}
}

// join checks the store if it is not checked yet, hands the loop its
// conditions, and begins the watch. It goes on trying for as long as the
// election runs: nothing here is given up permanently. err is why the
// conditions are not known yet.
func (s *storeIO) join(conditions Conditions, err error) {
	e := s.env
	ok := s.persist(func() error {
		if err != nil {
			conditions, err = s.check(e.ctx)
		}
		return err
	})
	if !ok {
		return
	}
	// Before the watch, so that the loop has its rules when the first state
	// comes.
	e.inbox.put(&message{conditions: &conditions})
	// Before the group's record shows that it may be claimed.
	e.joinDrain()
	w, ok := e.store.st.(store.Watcher)
	if !ok {
		s.poll()
		return
	}
	keys := []string{e.cfg.Group, record.ControlKey(e.cfg.Group)}
	ok = s.persist(func() error {
		stop, err := e.store.watch(e.ctx, w, keys, s.deliver)
		if err == nil {
			s.stop = stop
		}
		return err
	})
	if ok {
		e.inbox.put(&message{watched: true})
	}
}

// deliver handles what the watch reports. It runs on a goroutine owned by the
// store, so it must not panic.
func (s *storeIO) deliver(entry store.Entry) {
	e := s.env
	e.guard("delivery", func() { e.inbox.observed(entry, entry.Key != e.cfg.Group) })
}

// unwatch ends the watch, when all I/O has ended.
func (s *storeIO) unwatch() {
	if s.stop != nil {
		s.stop()
	}
}

// sayAgain is how often a trouble that lasts is reported again.
const sayAgain = time.Minute

// A trouble is what keeps something from working, for as long as it does.
type trouble struct {
	said string
	at   time.Time
}

// due reports whether to log the trouble now: when it changes, and once in
// sayAgain while it stays.
func (t *trouble) due(err error) bool {
	now := time.Now()
	if err.Error() == t.said && now.Sub(t.at) < sayAgain {
		return false
	}
	t.said, t.at = err.Error(), now
	return true
}

// persist repeats try until it succeeds or the election ends, and reports
// whether it succeeded. It logs the obstacle when the obstacle changes, and
// once a minute while it stays: an election that does not begin must not be
// silent, nor fill the log.
func (s *storeIO) persist(try func() error) bool {
	e := s.env
	var lasting trouble
	r := e.cfg.Retry
	pace := backoff.Policy{Initial: r.Initial, Max: min(r.Max, Forever), Multiplier: r.Multiplier, Jitter: r.Jitter}
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil {
			e.report.heard()
			return true
		}
		if e.ctx.Err() != nil {
			return false
		}
		if lasting.due(err) {
			e.report.unheard(err)
			e.report.tell(NoteNotReady, err.Error())
		}
		if !backoff.Sleep(e.ctx, pace.After(attempt)) {
			return false
		}
	}
}

// poll replaces the watch for a store that has none. It asks as often as a
// leader renews. A late read costs time and not safety, since rule 5 counts
// from the arrival of the answer.
func (s *storeIO) poll() {
	e := s.env
	var (
		group, control polled.Reads
		lasting        trouble
	)
	for watched, said := false, false; ; {
		faults.Point("poll")
		err := s.pollOne(e.cfg.Group, &group)
		// The control record is not waited for, since the user may lack the
		// right to read it.
		if err == nil && !watched {
			watched = true
			e.inbox.put(&message{watched: true})
		}
		// A closed store gives the same answer for ever.
		if errors.Is(err, store.ErrClosed) {
			e.report.unheard(err)
			return
		}
		if err == nil {
			e.report.heard()
		} else if e.ctx.Err() == nil {
			e.report.unheard(err)
			// As in persist. A candidate that has read the record once takes
			// part, and reports occasional failures by Status alone.
			if !watched && lasting.due(err) {
				e.report.tell(NoteNotReady, err.Error())
			}
		}
		err = s.pollOne(record.ControlKey(e.cfg.Group), &control)
		if store.Classify(err) == store.Permanent && e.ctx.Err() == nil && !said {
			said = true
			// Only once: a missing right stays missing, and each heartbeat
			// would log it again.
			e.report.tell(NoteNotReady, "the control record cannot be read: "+err.Error())
		}
		if !backoff.Sleep(e.ctx, e.cfg.HeartbeatInterval) {
			return
		}
	}
}

// pollOne reads one record, and passes it on if it is believed. A record that
// was read before is passed on, too: the core knows it by its revision.
func (s *storeIO) pollOne(key string, reads *polled.Reads) error {
	ctx, cancel := s.env.bounded()
	defer cancel()
	entry, err := s.env.store.Get(ctx, key)
	if err == nil && reads.Believe(entry.Revision) {
		s.env.inbox.observed(entry, key != s.env.cfg.Group)
	}
	return err
}

// An outage logs what a lost connection waits for, at once and each minute.
// Before the watch runs persist logs it. Its methods are called under one lock.
type outage struct {
	s        *storeIO
	watching func() bool
	again    func()
	timer    *time.Timer // nil while there is a connection
	since    time.Time
	said     trouble
}

func (o *outage) begin() {
	if o.timer == nil && o.watching() {
		o.since = time.Now()
		o.say()
		o.timer = time.AfterFunc(sayAgain, o.again)
	}
}

func (o *outage) lasts() {
	if o.timer != nil {
		o.say()
		o.timer.Reset(sayAgain)
	}
}

func (o *outage) end() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
}

// say names the cause, if the store knows it: a refused login needs a person to
// repair it. A connection that comes and goes is not reported lost each time.
func (o *outage) say() {
	why := "no server answers"
	if known, ok := o.s.env.store.st.(interface{ ConnError() error }); ok {
		shield.Call(func() {
			if err := known.ConnError(); err != nil {
				why = err.Error()
			}
		}, o.s.env.report.panicked("ConnError"))
	}
	if o.said.due(errors.New(why)) {
		o.s.env.report.tell(NoteDisconnected, fmt.Sprintf("the connection to the store is lost since %s: %s; waiting for it", o.since.Format(time.TimeOnly), why))
	}
}

// connState is the connection's state, as far as the store knows it. Any
// goroutine may ask, so that a panic of the store would strike a caller of
// Status.
func (s *storeIO) connState() store.ConnState {
	if c, ok := s.env.store.st.(store.ConnReporter); ok {
		return s.env.store.connState(c)
	}
	return store.Connected
}

// followConn turns changes of the connection into events until stop is called.
// watching reports whether the watch runs.
func (s *storeIO) followConn(watching func() bool) (stop func()) {
	e := s.env
	c, ok := e.store.st.(store.ConnReporter)
	if !ok {
		return func() {}
	}
	// Read the current state instead of the reported one: the last value put is
	// then the latest, whichever of the store's call and our own first look
	// comes first.
	var mu sync.Mutex
	away := outage{s: s, watching: watching}
	away.again = func() {
		e.guard("connection", func() {
			mu.Lock()
			defer mu.Unlock()
			away.lasts()
		})
	}
	tell := func(store.ConnState) {
		e.guard("connection", func() {
			mu.Lock()
			defer mu.Unlock()
			kind := machine.ConnDown
			switch e.store.connState(c) {
			case store.Connected:
				kind = machine.ConnUp
				away.end()
			case store.Closed:
				away.end()
				e.inbox.put(&message{closed: store.ErrClosed})
			default:
				away.begin()
			}
			e.inbox.event(machine.Event{Kind: kind})
		})
	}
	stopped := e.store.onConnState(c, tell)
	stop = func() {
		stopped()
		mu.Lock()
		defer mu.Unlock()
		away.end()
	}
	// The store does not report a state from before the registration.
	if state := e.store.connState(c); state != store.Connected {
		tell(state)
	}
	return stop
}
