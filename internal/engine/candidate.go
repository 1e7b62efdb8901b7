package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/process"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A Candidate is one candidate of one election. Its methods may be called
// concurrently and, unless documented otherwise, from within callbacks;
// leader.Election documents the methods that have a counterpart there.
type Candidate struct {
	env

	snap      atomic.Pointer[snapshot]
	callbacks callbacks
	io        storeIO
	loop      loop
	done      chan struct{}
	// closed is set when the store was found permanently closed before anybody
	// had asked for a stop. It ends the election, as broken does.
	closed  atomic.Pointer[failure]
	overran atomic.Bool // a callback outlived DemoteTimeout

	mu      sync.Mutex
	started bool
	stopped bool
	waiting int16 // calls that wait for the end of a stop; small, since there are many candidates
}

// StopOptions is the counterpart of leader.StopOptions.
type StopOptions struct {
	DeleteKey     bool
	WaitForDemote bool
	Timeout       time.Duration
}

// New returns a candidate whose record lives in st. Nothing happens before
// Start.
func New(st store.Store, cfg Config) *Candidate {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Candidate{env: env{cfg: cfg, process: process.ID(), clock: newClock(cfg.HeartbeatInterval), inbox: newInbox()}, done: make(chan struct{})}
	c.report = reporter{log: log.With("group", cfg.Group, "instance", cfg.InstanceID), hooks: cfg.Hooks, inbox: c.inbox}
	// What PerElection returns is not known before the start, and may have such
	// a hook.
	if cfg.Hooks.Callback != nil || cfg.PerElection != nil {
		c.report.told = make(chan struct{}, 1)
	}
	c.store = guardedStore{st, &c.report}
	e := &c.env
	c.callbacks.env, c.io.env = e, e
	c.loop.Candidate = c
	c.loop.peers.env = e
	// Before anybody has the candidate: readers never ask whether there is one.
	c.snap.Store(&snapshot{at: time.Now(), state: machine.Init, leader: leadership.Info{Group: cfg.Group}})
	return c
}

// SetMachine has the candidate run on a machine of a simulation, whose
// monotonic clock showed 0 at origin. It must be called before Start.
func (c *Candidate) SetMachine(origin time.Time, m Machine) { c.clock = clock{origin, m} }

// SetProcess has the candidate run in another process, as far as drains are
// concerned. It must be called before Start.
func (c *Candidate) SetProcess(id string) { c.process = id }

// Group is the group's name.
func (c *Candidate) Group() string { return c.cfg.Group }

// ID is the candidate's InstanceID.
func (c *Candidate) ID() string { return c.cfg.InstanceID }

// DeletesOnStop reports whether a stop without options releases the record.
func (c *Candidate) DeletesOnStop() bool { return c.cfg.DeleteOnStop }

// IsLeader reports whether the trust window is open at this instant.
func (c *Candidate) IsLeader() bool {
	w := c.current.Load()
	return w != nil && w.open()
}

// Term returns the present term, or the zero Term.
func (c *Candidate) Term() leadership.Term {
	if w := c.current.Load(); w != nil && w.open() {
		return w.term
	}
	return leadership.Term{}
}

// TrustUntil returns the end of the trust window, or the zero time.
func (c *Candidate) TrustUntil() time.Time {
	_, until := c.window()
	return until
}

// window returns the window of the present term, and its end, or nil. The two
// come of one look. Of two looks, the second might be at the next term.
func (c *Candidate) window() (*window, time.Time) {
	if w := c.current.Load(); w != nil {
		if until, open := w.until(); open {
			return w, c.clock.time(until)
		}
	}
	return nil, time.Time{}
}

// Leader returns who leads now, as far as this candidate knows. The snapshot
// does not change when a lease has run out and no step follows, so Leader
// evaluates it as of now.
func (c *Candidate) Leader() (info leadership.Info) {
	if !c.self(&info) {
		info = c.snap.Load().leader.AsOf(c.clock.present())
	}
	return info
}

// self sets info to this candidate, if it leads, and reports whether it does.
// The record is not asked: it may still have our name when the window has
// closed.
func (c *Candidate) self(info *leadership.Info) bool {
	w, until := c.window()
	if w == nil {
		return false
	}
	*info = leadership.Info{
		Group: c.cfg.Group, ID: c.cfg.InstanceID, Term: w.term.Number, Transitions: w.transitions, Correlation: w.correlation,
		Priority: c.cfg.Standing.Priority, Version: c.cfg.Standing.Version,
		Address: c.cfg.Address, Params: c.cfg.Params, Meta: c.cfg.Meta, Until: until, Acquired: w.acquired, Renewed: w.written(),
	}
	return true
}

// A Status is what a candidate knows at one instant. The fields match
// leader.ElectionStatus.
type Status struct {
	Address          string
	State            string
	IsLeader         bool
	LeaderID         string
	LeaderTerm       uint64
	Term             leadership.Term
	Transitions      uint64
	Acquired         record.Moment
	Renewed          record.Moment
	TrustUntil       time.Time
	LastHeartbeat    time.Time
	LastTransition   time.Time
	Reason           machine.Reason
	Revision         uint64
	ConnectionStatus string
	Barred           machine.Reason
	LastError        error
	LastErrorAt      time.Time
}

// Status returns what this candidate knows.
func (c *Candidate) Status() Status {
	s := c.snap.Load()
	st := Status{
		Address: c.cfg.Address, State: stateName(s.state), LastTransition: s.at, Reason: s.reason,
		ConnectionStatus: c.io.connState().String(), Barred: barred(s.bars),
	}
	if f := c.report.lastErr.Load(); f != nil {
		st.LastError, st.LastErrorAt = f.err, f.at
	}
	// The window decides, and not the snapshot, which the loop may be late to
	// store.
	if w, until := c.window(); w != nil {
		st.IsLeader, st.State, st.LeaderID, st.LeaderTerm = true, StateLeader, c.cfg.InstanceID, w.term.Number
		st.Term, st.Transitions, st.TrustUntil = w.term, w.transitions, until
		st.LastHeartbeat, st.Revision = s.heartbeat, s.revision
		st.Acquired, st.Renewed = w.acquired, w.written()
		return st
	}
	if s.state == machine.Leader {
		// The window has passed, and the loop has not got to it.
		st.State, st.Reason = StateDemoted, machine.ReasonTrust
	}
	l := s.leader.AsOf(c.clock.present())
	st.Transitions, st.Acquired, st.Renewed = l.Transitions, l.Acquired, l.Renewed
	if l.ID != "" {
		st.LeaderID, st.LeaderTerm = l.ID, l.Term
	}
	return st
}

// Start has the store checked and begins to take part.
func (c *Candidate) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.start(ctx, ctx)
}

// StartApart is Start for a caller that stops the election itself when ctx is
// done, in its own way. The end of ctx ends the check of the store, in which
// nothing is held yet, and nothing after that.
func (c *Candidate) StartApart(ctx context.Context) error {
	return c.start(ctx, context.WithoutCancel(ctx))
}

// start begins an election that lasts as long as life, when the store has been
// checked for as long as check.
func (c *Candidate) start(check, life context.Context) error {
	if err := c.ClaimStart(); err != nil {
		return err
	}
	conditions, err := c.io.check(check)
	return c.Proceed(life, conditions, err)
}

// ClaimStart makes sure that a candidate is started once. It is the first part
// of Start, before CheckStore and Proceed, for a supervisor that has the store
// checked for many candidates before it starts any. It marks the candidate
// before the check, which takes its time: of two calls of Start one fails at
// once.
func (c *Candidate) ClaimStart() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		return ErrStopped
	case c.started:
		return ErrAlreadyStarted
	}
	c.started = true
	return nil
}

// CheckStore checks the store, and returns the conditions of an election on it.
// A panic of our code in it ends the election.
func (c *Candidate) CheckStore(ctx context.Context) (conditions Conditions, err error) {
	err = OutcomeOfPanic("Check")
	c.guard("check", func() { conditions, err = c.io.check(ctx) })
	return conditions, err
}

// Proceed is the rest of Start, when the store has been checked. An error that
// may pass keeps nobody from starting: the election goes on with the check
// until it succeeds, since a program that starts beside its servers must not
// depend on who is first.
func (c *Candidate) Proceed(ctx context.Context, conditions Conditions, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped: // meanwhile; its Stop waits for done
		c.neverRan()
		return ErrStopped
	case store.Classify(err) == store.Permanent:
		// The caller has the error, and may start again when a person has put
		// it right.
		c.started = false
		return err
	}
	c.loop.begin(ctx, conditions, err)
	return nil
}

// neverRan ends an election that was stopped before its goroutine started.
// Callers that wait for its end return as for any other. Hooks are not
// notified, since they start with the loop.
func (c *Candidate) neverRan() {
	c.snap.Store(&snapshot{state: machine.Ended, at: time.Now(), reason: machine.ReasonStopped, leader: c.snap.Load().leader})
	c.loop.dispose()
	close(c.done)
}

// Done returns a channel that is closed when the election has ended
// permanently.
func (c *Candidate) Done() <-chan struct{} { return c.done }

// Over reports whether the election has ended permanently.
func (c *Candidate) Over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Working returns a channel that is closed when OnPromote and OnDemote have
// returned, or nil if they have. They may outlive the election, which waits for
// them no longer than DemoteTimeout.
func (c *Candidate) Working() <-chan struct{} { return c.callbacks.terms.drained() }

// Err returns why the election has ended by itself, nil if it has not. Before
// its end the reason is there already (Ended), and might be taken for the end.
func (c *Candidate) Err() error {
	if !c.Over() {
		return nil
	}
	return c.Ended()
}

// Ended returns why the election has ended by itself, or is about to; nil if it
// does neither.
func (c *Candidate) Ended() error {
	for _, why := range []*atomic.Pointer[failure]{&c.broken, &c.closed} {
		if f := why.Load(); f != nil {
			return f.err
		}
	}
	return nil
}

// Sever informs the candidate that its store is permanently closed. A manager
// of roles calls it when one of its candidates has found that out.
func (c *Candidate) Sever(cause error) {
	if c.BreakOff(cause) {
		c.inbox.put(&message{closed: cause})
	}
}

// BreakOff marks the election as ended by its store, which is permanently
// closed, unless somebody has asked for a stop. It reports whether the election
// is marked so. A stop that was asked for before stays a stop, and ends without
// an error: the program wanted the end.
func (c *Candidate) BreakOff(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started && !c.stopped {
		c.stopped = true
		c.closed.Store(&failure{fmt.Errorf("leader: the election of group %q has ended: %w", c.cfg.Group, cause), time.Now()})
	}
	return c.closed.Load() != nil
}

// Stop ends the election: see leader.Election.StopWithContext.
func (c *Candidate) Stop(ctx context.Context, opts StopOptions) error {
	if !c.AskStop(opts.DeleteKey) {
		return nil
	}
	if c.Inside() {
		return nil // the caller is what the stop has to wait for
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Timeout)
		defer cancel()
	}
	c.Attend()
	err := c.awaitStop(ctx, opts.WaitForDemote)
	c.Depart(err != nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStopTimeout, err)
	}
	// Both errors: one means that work may go on, the other why the election
	// ended.
	if opts.WaitForDemote && c.overran.Load() {
		if err := c.Err(); err != nil {
			return errors.Join(err, ErrDemoteTimeout)
		}
		return ErrDemoteTimeout
	}
	return c.Err()
}

// Inside reports whether the caller is a callback or a hook of this candidate.
func (c *Candidate) Inside() bool { return c.callbacks.inside() || c.loop.inside() }

// Attend counts a call that waits for the end of a stop, until Depart. Stop does
// so itself. A manager waits for one candidate after the other, and counts its
// call at all of them first: a candidate that it has not come to yet is waited
// for no less.
func (c *Candidate) Attend() { c.wait(1) }

// Depart takes back one Attend. If the call gave up, and no other waits, the
// release is given up. Otherwise the candidate would go on renewing for up to
// DemoteTimeout, beside a program that believes it gone. The record is left to
// expire.
func (c *Candidate) Depart(gaveUp bool) {
	if left := c.wait(-1); gaveUp && left == 0 {
		c.inbox.event(machine.Event{Kind: machine.StopLeave})
	}
}

// wait counts the calls that wait for the end of a stop, and returns how many
// do.
func (c *Candidate) wait(more int16) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += more
	return c.waiting
}

// awaitStop waits for the end of the election. If the caller does not want
// that, awaitStop only waits until the term is over for readers and its work
// has been asked to stop.
func (c *Candidate) awaitStop(ctx context.Context, end bool) error {
	if !end {
		return c.await(ctx, "", func(s *machine.State) (bool, error) { return s.Phase > machine.Holding, nil })
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		// Both may be so, and then it is not too late.
		if c.Over() {
			return nil
		}
		return ctx.Err()
	}
}

// AskStop asks the loop to stop, and reports whether there is one. It does not
// wait, so that a manager asks all its candidates before it waits for any, and
// the loop itself may call it.
func (c *Candidate) AskStop(release bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.stopped
	c.stopped = true
	if !c.started {
		if first {
			c.neverRan()
		}
		return false
	}
	if first {
		// The first stop decides what becomes of the record. Its release may
		// have left by the time of the second.
		kind := machine.StopLeave
		if release {
			kind = machine.StopRelease
		}
		c.inbox.event(machine.Event{Kind: kind})
	}
	return true
}

// Bar keeps the candidate from campaigning, or ends that, as the event defines.
// It does not block. Managers use it for conditions that hold for all their
// roles, or for room among them.
func (c *Candidate) Bar(ev machine.Event) { c.inbox.event(ev) }

// Report has the candidate report a note, and reports whether it will: it does
// while it runs. It does not block. It is a manager's, for what concerns all
// its roles, since exporters count by the hooks of one election each.
func (c *Candidate) Report(n Note) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started || c.stopped || c.Over() {
		return false
	}
	c.inbox.put(&message{note: &n})
	return true
}

// OnTerm registers a callback for the beginning of each term.
func (c *Candidate) OnTerm(f func(context.Context, leadership.Term)) {
	c.register("OnPromote or OnTerm", func() { c.callbacks.promoted = append(c.callbacks.promoted, f) })
}

// OnDemote registers a callback for the end of each term that OnTerm was called
// for.
func (c *Candidate) OnDemote(f func()) {
	c.register("OnDemote", func() { c.callbacks.demoted = append(c.callbacks.demoted, f) })
}

// OnLeaderChange registers a callback for each change of who leads.
func (c *Candidate) OnLeaderChange(f func(leadership.Info)) {
	c.register("OnLeaderChange", func() { c.callbacks.changed = append(c.callbacks.changed, f) })
}

// OnCampaign registers a callback for the beginning of each campaign.
func (c *Candidate) OnCampaign(f func(machine.Reason)) {
	c.register("OnCampaign", func() { c.callbacks.campaign = append(c.callbacks.campaign, f) })
}

// register refuses a callback once the election has been started. It would be
// called from the next term on, and a program that leads already would wait for
// it.
func (c *Candidate) register(what string, add func()) {
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if started {
		c.report.tell(NoteWarning, what+" was called after Start: the callback is refused, and never called. Register before Start.")
		return
	}
	c.callbacks.add(add)
}

// Returned reports that what leads has returned while its term lasts.
func (c *Candidate) Returned(err error) {
	text := "the lead function returned while its term lasted: the election ends"
	if err != nil {
		text += ", with its error: " + err.Error()
	}
	c.report.tell(NoteReturned, text)
}

// Observe yields who leads, as this candidate sees it.
func (c *Candidate) Observe(ctx context.Context) iter.Seq[leadership.Info] {
	return c.callbacks.observe(ctx, c.Leader, c.done)
}

// Resign ends the present term, and hands it to the successor if one is named.
func (c *Candidate) Resign(ctx context.Context, successor string) error {
	x := machine.Exit{Reason: machine.ReasonResigned}
	if successor != "" {
		x = machine.Exit{Reason: machine.ReasonTransferred, Successor: successor}
	}
	term := c.Term()
	if term.IsZero() {
		return ErrNotLeader
	}
	return c.leave(ctx, term.Number, x)
}

// leave ends the term of that number, if it is still the present one. A
// goroutine may not have got on since it looked which one that is.
func (c *Candidate) leave(ctx context.Context, term uint64, x machine.Exit) error {
	c.inbox.event(machine.Event{Kind: machine.Asked, Term: term, Exit: x})
	if c.Inside() {
		return nil // the release follows when the callback that calls us has returned
	}
	err := c.await(ctx, machine.Release.String(), func(s *machine.State) (bool, error) {
		// Not only until the term is over: the caller of a handover wants the
		// record to be free.
		over := s.Phase != machine.Draining && s.Phase != machine.Releasing
		return over && (s.Phase != machine.Holding || s.Grant.Term != term), nil
	})
	if err != nil {
		return err
	}
	return c.Ended() // an election that has ended by itself has released nothing
}

// Pause pauses the group, whose control record it writes. A candidate that
// leads hears of that as all others do, by its watch.
func (c *Candidate) Pause(ctx context.Context, why string) error {
	return controlrecord.Change(ctx, &c.store, c.cfg.Group, controlrecord.Pause(c.cfg.InstanceID, why))
}

// Resume ends a pause.
func (c *Candidate) Resume(ctx context.Context) error {
	return controlrecord.Change(ctx, &c.store, c.cfg.Group, controlrecord.Resume)
}

// Alive returns nil if the loop answers before ctx is done.
func (c *Candidate) Alive(ctx context.Context) error {
	c.mu.Lock()
	started, stopped := c.started, c.stopped
	c.mu.Unlock()
	switch {
	case stopped:
		return c.stoppedError()
	case !started:
		return ErrNotStarted
	}
	// Asked, since a loop that is stuck still shows its last state.
	err := c.await(ctx, "", func(*machine.State) (bool, error) { return true, nil })
	if err == nil && c.Over() {
		return c.stoppedError()
	}
	return err
}

// Inspect calls f with the state of the core, on the loop's goroutine, and
// returns when f has returned. It is for tests, which look at what no reader is
// shown.
func (c *Candidate) Inspect(ctx context.Context, f func(machine.State)) error {
	return c.await(ctx, "", func(s *machine.State) (bool, error) {
		f(*s)
		return true, nil
	})
}

// stoppedError is ErrStopped, and why, if the election has ended by itself.
func (c *Candidate) stoppedError() error {
	if err := c.Ended(); err != nil {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return ErrStopped
}

// await waits until the state satisfies done, the election has ended, or ctx is
// done. If that takes a call of a kind to the store, await fails with the call
// where the call would fail again until somebody repairs something.
func (c *Candidate) await(ctx context.Context, kind string, done func(*machine.State) (bool, error)) error {
	if c.Over() { // nobody would read the message
		return nil
	}
	w, begun := &waiter{done: done, kind: kind, answer: make(chan error, 1)}, time.Now()
	c.inbox.put(&message{wait: w})
	select {
	case err := <-w.answer:
		return err
	case <-c.done:
		return nil
	case <-ctx.Done():
		// The end of a context does not explain the failure. A store failure in
		// the meantime most often does, such as a deleted bucket.
		if f := c.report.lastErr.Load(); kind != "" && f != nil && !f.at.Before(begun) {
			return fmt.Errorf("%w: %w", ctx.Err(), f.err)
		}
		return ctx.Err()
	}
}

func (c *Candidate) health() *Health {
	return &Health{
		Check: c.cfg.Check, Interval: c.cfg.CheckInterval, Timeout: c.cfg.CheckTimeout, MaxFailures: c.cfg.MaxFailures,
		Tell: c.inbox.event, Panicked: c.report.panicked,
	}
}
