package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// An Election is one candidate in one election. All methods may be called
// concurrently and, unless their own documentation says otherwise, from within callbacks.
type Election interface {
	// Start begins to take part, in the background. It checks the store first: what
	// makes an election impossible or unsafe there (a missing bucket, a permission, no JetStream) is returned, with
	// the remedy in the text, and Start may be called again. A store that cannot be
	// reached is no error: it is awaited, and the Logger told. Start blocks for no longer than
	// this check, at most the larger of ConnectionTimeout and 2 seconds. When ctx is done, also
	// after Start has returned, the election stops as by Stop.
	//
	// Other errors are ErrAlreadyStarted, ErrStopped and that of a ctx that is done already.
	Start(ctx context.Context) error

	// Stop stops taking part: the term's context is cancelled, OnDemote runs to its end, and
	// then, with DeleteOnStop, the record is released. It returns when all that is done, and
	// may be called repeatedly. Called from a callback, it returns at once, and the rest follows
	// when the callback has returned. The error is ErrDemoteTimeout if a callback outlived DemoteTimeout, and
	// matches that of Err if the election has ended by itself.
	Stop() error

	// StopWithContext is Stop with options. It gives up waiting when ctx is done or
	// opts.Timeout has passed, and returns ErrStopTimeout; the record then expires by itself.
	// Of several calls the first decides whether the record is released.
	StopWithContext(ctx context.Context, opts StopOptions) error

	// Done returns a channel that is closed when the election has ended for good: after Stop, when the
	// context of Start has ended, or by itself, with all that follows. Err then says which.
	Done() <-chan struct{}

	// Err returns nil while the election runs, and after a stop that was asked for. Otherwise it
	// returns why the election ended by itself: ErrConnectionClosed or ErrPanicked. Such an
	// election is not started again; the program makes another one, or ends.
	Err() error

	// IsLeader reports whether this candidate leads at this instant: whether its trust window
	// is open, on the monotonic and on the wall clock. It neither blocks nor allocates.
	// The answer is about the past as soon as it is given: see the package documentation.
	IsLeader() bool

	// LeaderID returns who leads as far as this candidate knows, or "".
	LeaderID() string

	// Token returns the token of the present term, or "" if this candidate does not lead.
	Token() string

	// Term returns the present term, or the zero Term if this candidate does not lead.
	Term() Term

	// TrustUntil returns the end of the trust window, or the zero time if this candidate does not lead.
	TrustUntil() time.Time

	// Status returns what this candidate knows.
	Status() ElectionStatus

	// OnPromote registers a callback for the beginning of each term. ctx ends with the term at
	// the latest, its cause is a *LossError, and TermFromContext finds the term in it. The
	// callback may last as long as the term; OnDemote waits for it to return. After a suspension of
	// the machine ctx.Err and IsLeader are right at once; ctx.Done closes, and contexts derived from
	// ctx end, at once on Linux and within 250 ms elsewhere: see Suspension in the package documentation.
	// A panic in it is reported and ends the term. Of this and of the following kinds several may be registered, which are called
	// in their order; nil is none. Register before Start.
	OnPromote(func(ctx context.Context, token string))

	// OnTerm is OnPromote for a callback that is given the whole Term, whose number a protected resource needs. Both
	// kinds are called in the order of their registration.
	OnTerm(func(ctx context.Context, term Term))

	// OnDemote registers a callback for the end of each term that OnPromote was called
	// for. The record is released only when it has returned or DemoteTimeout has passed. Register before Start.
	OnDemote(func())

	// OnLeaderChange registers a callback for every change of who leads, as this
	// candidate sees it. News (this and OnCampaign) are delivered one at a time and in order, by a
	// goroutine of their own: they run beside OnPromote and OnDemote, and neither waits for the
	// other. A callback that lags by more than 16 changes skips to the latest. Register before Start.
	OnLeaderChange(func(LeaderInfo))

	// OnCampaign registers a callback for each time that this candidate begins to campaign: it has found
	// nobody to lead, for the reason given, and is about to claim the record. It is delivered as
	// OnLeaderChange is, and skips to the latest in the same way. Register before Start.
	OnCampaign(func(Reason))

	// Observe yields who leads, as this candidate sees it: the present state first, then
	// each change, until ctx is done or the election has ended (see Done and Err). A slow reader skips states.
	Observe(ctx context.Context) iter.Seq[LeaderInfo]

	// ValidateToken proves that this candidate led at some instant during the call: it renews the
	// lease by compare-and-swap and waits for the store's answer. A read could not prove it, since
	// reads may come from a replica that lags. The error matches ErrNotLeader if the
	// term is over, ctx.Err() if no answer came in time, and store.ErrPermanent, with the remedy in its text, if
	// the store cannot be written until somebody mends it (a bucket that was deleted, a permission).
	ValidateToken(ctx context.Context) error

	// Do runs a critical operation: it validates the token as the FencingConfig says and
	// calls op with a context that ends with the term. It returns an error that
	// matches ErrNotLeader, without calling op, if this candidate does not lead.
	Do(ctx context.Context, op func(ctx context.Context) error) error

	// Resign ends the present term: the work stops, the record is released, and this
	// candidate stands back until another has led or TTL × (1 + ClockDrift) has
	// passed. It returns when another holds the record, the release is written or given up, or ctx is done (the resignation goes on
	// then); called from a callback, at once. The error is ErrNotLeader if there is nothing to resign, and matches
	// that of Err if the election ends by itself meanwhile, and store.ErrPermanent if the release cannot be written until
	// somebody mends the store: the record is then left to expire.
	Resign(ctx context.Context) error

	// Transfer is Resign with a successor: the vacancy names it, and the other candidates give it a
	// head start of TTL/2, at most 2 seconds. Whether the successor is there, and fit to lead, the leader cannot know: if not, that
	// costs the group the head start; if there is no third candidate, the whole time for which this one stands back.
	Transfer(ctx context.Context, instanceID string) error

	// Pause keeps every candidate of the group from leading until Resume, also those that start later: the
	// leader stops its work and releases. It returns when the request is stored; the leader obeys it as soon as it
	// hears of it. why is for people, at most 512 bytes. It needs the right to write the control record; see [Control] for
	// programs that do not take part.
	Pause(ctx context.Context, why string) error

	// Resume ends a pause.
	Resume(ctx context.Context) error

	// Alive returns nil if the election runs and its goroutine, which renews the lease, answers before ctx is done. It
	// says nothing about the store. Errors are ErrNotStarted, ErrStopped (which matches Err's error, too, if there is
	// one) and ctx.Err(). Like ValidateToken it would wait for
	// itself in a hook.
	Alive(ctx context.Context) error
}

// StopOptions say how to stop.
type StopOptions struct {
	// DeleteKey releases the record after the work stopped, so that another candidate
	// leads at once.
	DeleteKey bool
	// WaitForDemote waits until OnDemote has returned. Without it, StopWithContext
	// returns once this candidate leads no more, and what is left (OnDemote, then the
	// release) is done in the background within DemoteTimeout.
	WaitForDemote bool
	// Timeout bounds the call, besides its context. 0: no bound.
	Timeout time.Duration
}

// NewElectionWithStore returns a candidate whose records live in st. Nothing happens before Start.
// Elections may share a store; it is not closed by them.
func NewElectionWithStore(st store.Store, cfg ElectionConfig) (Election, error) {
	if err := cfg.validate(false, "store", st != nil); err != nil {
		return nil, err
	}
	return newElection(st, cfg), nil
}

func newElection(st store.Store, cfg ElectionConfig) *election {
	cfg = cfg.withDefaults()
	cfg.Meta = maps.Clone(cfg.Meta) // the caller may change theirs while we write
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e := &election{
		apart: &apart{},
		cfg:   cfg, store: st, clock: clock{origin: time.Now()}, mail: newMailbox(), done: make(chan struct{}),
		log: log.With("group", cfg.Group, "instance", cfg.InstanceID),
	}
	if h := cfg.Hooks; h.Callback != nil || h.PerElection != nil {
		e.told = make(chan struct{}, 1)
	}
	e.snap.Store(&snapshot{at: e.clock.origin, state: machine.Init, leader: LeaderInfo{Group: cfg.Group}})
	return e
}

type election struct {
	cfg   ElectionConfig
	store store.Store
	clock clock
	log   *slog.Logger
	mail  *mailbox
	// hooks are those of this election, set by its goroutine before anything is reported.
	hooks Hooks
	// dispose, optional, ends what the election owns of the store.
	dispose func()
	// seat is where the manager that runs this election, if one does, has its say.
	seat *seat

	current atomic.Pointer[grant] // the present term, nil without one
	snap    atomic.Pointer[snapshot]
	courier courier // of OnPromote and OnDemote
	lastErr atomic.Pointer[failure]
	done    chan struct{}

	*apart

	mu      sync.Mutex
	started bool
	stopped bool
	// undrained: a demotion was handed in, and is not answered yet. It is the loop's alone, and stands here to cost no memory.
	undrained bool
	overran   atomic.Bool // a callback outlived DemoteTimeout
	promoted  []func(context.Context, Term)
	demoted   []func()
	changed   []func(LeaderInfo)
	campaign  []func(Reason)
	watchers  map[*mailslot]struct{}

	loop loop
}

// An apart is a part of an election that is allocated by itself: with it, an
// election would take a fourteenth more memory, by the allocator's steps.
type apart struct {
	newsman courier // of OnLeaderChange and OnCampaign
	// told holds one while a hook is told of a callback, since both couriers do. It is nil without such a hook. A channel and
	// no mutex, which would keep virtual time from passing.
	told chan struct{}
	// failures is how many health checks in a row have failed. It belongs to followHealth, and outlives a panic in it.
	failures int
	// broken is how code of ours panicked, if it did. It ends the election.
	broken atomic.Pointer[failure]
	// promoting: OnPromote is being called.
	promoting atomic.Bool
	// closed is set when the store was found closed for good, before anybody had
	// asked for a stop. It ends the election, too.
	closed atomic.Pointer[failure]
}

// A snapshot is what readers see, besides the grant. It is immutable.
type snapshot struct {
	state     machine.Public
	at        time.Time // since when
	reason    Reason
	barred    Reason
	heartbeat time.Time
	revision  uint64
	leader    LeaderInfo // another candidate, or why there is none
}

// same reports whether readers see in o what they see in s. What a leader says of
// itself changes with its record alone, and with that the end of its lease.
func (s *snapshot) same(o *snapshot) bool {
	l, m := &s.leader, &o.leader
	return s.state == o.state && s.at.Equal(o.at) && s.reason == o.reason && s.barred == o.barred &&
		s.heartbeat.Equal(o.heartbeat) && s.revision == o.revision &&
		l.sameNews(*m) && l.Group == m.Group && l.Correlation == m.Correlation && l.Priority == m.Priority &&
		l.Version == m.Version && l.Address == m.Address && len(l.Meta) == len(m.Meta) && l.Until.Equal(m.Until)
}

// A failure is an error of a call to the store, and when it came.
type failure struct {
	err error
	at  time.Time
}

// failed takes in the error of a call to the store.
func (e *election) failed(err error) {
	e.lastErr.Store(&failure{err, time.Now()})
	if errors.Is(err, ErrConnectionClosed) {
		e.mail.put(letter{closed: err})
	}
}

func (e *election) IsLeader() bool {
	g := e.current.Load()
	return g != nil && g.open()
}

func (e *election) Term() Term {
	if g := e.current.Load(); g != nil && g.open() {
		return g.term
	}
	return Term{}
}

func (e *election) Token() string { return e.Term().Token }

func (e *election) TrustUntil() time.Time {
	if g := e.current.Load(); g != nil && g.open() {
		return e.clock.time(g.mono.Load())
	}
	return time.Time{}
}

func (e *election) LeaderID() string { return e.leader().ID }

// leader returns who leads now, as far as known.
func (e *election) leader() LeaderInfo {
	if g := e.current.Load(); g != nil && g.open() {
		return e.self(g)
	}
	return e.snap.Load().leader.asOf(e.clock.present())
}

// asOf returns the info as it reads at now: a lease that ran out names nobody.
func (l LeaderInfo) asOf(now time.Time) LeaderInfo {
	if l.ID == "" || now.Before(l.Until) {
		return l
	}
	return LeaderInfo{Group: l.Group, Term: l.Term, Correlation: l.Correlation, Reason: ReasonExpired}
}

func (e *election) self(g *grant) LeaderInfo {
	return LeaderInfo{
		Group: e.cfg.Group, ID: e.cfg.InstanceID, Term: g.term.Number, Correlation: g.correlation,
		Priority: e.cfg.Priority, Version: e.cfg.Version,
		Address: e.cfg.Address, Meta: e.cfg.Meta, Until: e.clock.time(g.mono.Load()),
	}
}

func (e *election) Status() ElectionStatus {
	s := e.snap.Load()
	st := ElectionStatus{
		State: stateName(s.state), LastTransition: s.at, Reason: s.reason,
		ConnectionStatus: e.connState().String(), Barred: s.barred,
	}
	if f := e.lastErr.Load(); f != nil {
		st.LastError, st.LastErrorAt = f.err, f.at
	}
	g := e.current.Load()
	if g != nil && g.open() {
		st.IsLeader, st.State = true, StateLeader
		st.LeaderTerm = g.term.Number
		st.LeaderID, st.Token, st.Term = e.cfg.InstanceID, g.term.Token, g.term.Number
		st.TrustUntil, st.LastHeartbeat, st.Revision = e.clock.time(g.mono.Load()), s.heartbeat, s.revision
		return st
	}
	if s.state == machine.Leader {
		// The window has passed, and the election's goroutine has not got to it.
		st.State, st.Reason = StateDemoted, ReasonTrustExpired
	}
	if l := s.leader.asOf(e.clock.present()); l.ID != "" {
		st.LeaderID, st.LeaderTerm = l.ID, l.Term
	}
	return st
}

func (e *election) connState() store.ConnState {
	if c, ok := e.store.(store.ConnReporter); ok {
		return c.ConnState()
	}
	return store.Connected
}

func (e *election) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.claimStart(); err != nil {
		return err
	}
	rules, err := e.ready(ctx)
	return e.proceed(ctx, rules, err)
}

// proceed is the rest of Start, when the store has been checked.
func (e *election) proceed(ctx context.Context, rules conditions, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.stopped: // meanwhile; its Stop waits for done
		e.neverRan()
		return ErrStopped
	case store.Classify(err) == store.Permanent:
		e.started = false
		return err
	}
	e.loop.begin(ctx, e, rules, err)
	return nil
}

func (e *election) Done() <-chan struct{} { return e.done }

func (e *election) Err() error {
	if !e.over() {
		return nil
	}
	return e.ended()
}

// ended returns why the election has ended by itself, or is about to; nil if it
// does neither.
func (e *election) ended() error {
	for _, why := range []*atomic.Pointer[failure]{&e.broken, &e.closed} {
		if f := why.Load(); f != nil {
			return f.err
		}
	}
	return nil
}

// breakOff marks the election as ended by its store, which is closed for good,
// unless somebody has asked for a stop. It reports whether it is so marked.
func (e *election) breakOff(cause error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started && !e.stopped {
		e.stopped = true
		e.closed.Store(&failure{fmt.Errorf("leader: the election of group %q has ended: %w", e.cfg.Group, cause), time.Now()})
	}
	return e.closed.Load() != nil
}

// neverRan ends an election that was stopped before its goroutine began.
func (e *election) neverRan() {
	e.snap.Store(&snapshot{state: machine.Ended, at: time.Now(), reason: ReasonStopped, leader: e.snap.Load().leader})
	if e.dispose != nil {
		e.dispose()
	}
	close(e.done)
}

func (e *election) claimStart() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.stopped:
		return ErrStopped
	case e.started:
		return ErrAlreadyStarted
	}
	e.started = true
	return nil
}

// ready has the store checked. It returns the conditions that suit the store.
func (e *election) ready(ctx context.Context) (conditions, error) {
	ctx, cancel := context.WithTimeout(ctx, max(e.cfg.ConnectionTimeout, 2*time.Second))
	defer cancel()
	var report store.Report
	if c, ok := e.store.(store.Checker); ok {
		var err error
		report, err = e.checkStore(ctx, c, store.CheckRequest{
			TTL: e.cfg.TTL, Key: e.cfg.Group, Reads: []string{record.ControlKey(e.cfg.Group)},
		})
		if err != nil {
			return conditions{}, err
		}
	}
	rules := e.cfg.conditions(report)
	for _, w := range rules.warnings(report) {
		if e.seat.warns(w) {
			e.mail.put(letter{note: &Note{At: time.Now(), Kind: NoteWarning, Text: w}})
		}
	}
	_, rules.Offers = e.store.(store.Offerer)
	return rules, nil
}

func (e *election) Stop() error {
	return e.StopWithContext(context.Background(), StopOptions{DeleteKey: e.cfg.DeleteOnStop, WaitForDemote: true})
}

func (e *election) StopWithContext(ctx context.Context, opts StopOptions) error {
	if !e.askStop(opts.DeleteKey) {
		return nil
	}
	if e.inside() {
		return nil // the caller is what the stop has to wait for
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Timeout)
		defer cancel()
	}
	if !opts.WaitForDemote {
		err := e.await(ctx, func(s machine.State) (bool, error) { return s.Phase > machine.Holding, nil })
		if err != nil {
			return e.stopLate(err)
		}
		return e.Err()
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return e.stopLate(ctx.Err())
	}
	if e.overran.Load() {
		if err := e.Err(); err != nil {
			return errors.Join(err, ErrDemoteTimeout)
		}
		return ErrDemoteTimeout
	}
	return e.Err()
}

// inside reports whether the caller is a callback or a hook of this election.
func (e *election) inside() bool {
	return e.courier.inside() || e.newsman.inside() || e.loop.inside()
}

// stopLate gives up the release when nobody waits for it any more.
func (e *election) stopLate(cause error) error {
	e.mail.event(machine.Event{Kind: machine.StopLeave})
	return fmt.Errorf("%w: %w", ErrStopTimeout, cause)
}

// askStop tells the loop to stop, and reports whether there is one.
func (e *election) askStop(release bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := !e.stopped
	e.stopped = true
	if !e.started {
		if first {
			e.neverRan()
		}
		return false
	}
	if first {
		kind := machine.StopLeave
		if release {
			kind = machine.StopRelease
		}
		e.mail.event(machine.Event{Kind: kind})
	}
	return true
}

func (e *election) OnPromote(f func(ctx context.Context, token string)) {
	if f != nil {
		e.OnTerm(func(ctx context.Context, term Term) { f(ctx, term.Token) })
	}
}

func (e *election) OnTerm(f func(ctx context.Context, term Term)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f != nil {
		e.promoted = append(e.promoted, f)
	}
}

func (e *election) OnDemote(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f != nil {
		e.demoted = append(e.demoted, f)
	}
}

func (e *election) OnLeaderChange(f func(LeaderInfo)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f != nil {
		e.changed = append(e.changed, f)
	}
}

func (e *election) OnCampaign(f func(Reason)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f != nil {
		e.campaign = append(e.campaign, f)
	}
}

func (e *election) Resign(ctx context.Context) error {
	return e.giveUp(ctx, machine.Exit{Reason: machine.ReasonResigned})
}

func (e *election) Transfer(ctx context.Context, instanceID string) error {
	if instanceID == "" || instanceID == e.cfg.InstanceID || !validID(instanceID) {
		return &ConfigError{Field: "instanceID", Value: instanceID, Rule: "must be the InstanceID of another candidate"}
	}
	return e.giveUp(ctx, machine.Exit{Reason: machine.ReasonTransferred, Successor: instanceID})
}

func (e *election) giveUp(ctx context.Context, x machine.Exit) error {
	term := e.Term()
	if term.IsZero() {
		return ErrNotLeader
	}
	// Asked names the term, so that a call that comes late does not end a later one.
	e.mail.event(machine.Event{Kind: machine.Asked, Term: term.Number, Exit: x})
	if e.inside() {
		return nil // the release follows when the callback that calls us has returned
	}
	err := e.awaitCall(ctx, machine.Release.String(), func(s machine.State) (bool, error) {
		over := s.Phase != machine.Draining && s.Phase != machine.Releasing
		return over && (s.Phase != machine.Holding || s.Grant.Term != term.Number), nil
	})
	if err != nil {
		return err
	}
	return e.ended() // an election that has ended by itself has released nothing
}

func (e *election) Alive(ctx context.Context) error {
	e.mu.Lock()
	started, stopped := e.started, e.stopped
	e.mu.Unlock()
	switch {
	case stopped:
		return e.stoppedError()
	case !started:
		return ErrNotStarted
	}
	err := e.await(ctx, func(machine.State) (bool, error) { return true, nil })
	if err == nil && e.over() {
		return e.stoppedError()
	}
	return err
}

// stoppedError is ErrStopped, and why, if the election has ended by itself.
func (e *election) stoppedError() error {
	if err := e.ended(); err != nil {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return ErrStopped
}

// over tells whether the election's goroutine has ended.
func (e *election) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// await waits until the state satisfies done, the election has stopped, or ctx is done.
func (e *election) await(ctx context.Context, done func(machine.State) (bool, error)) error {
	return e.awaitCall(ctx, "", done)
}

// awaitCall is await for what takes a call of a kind to the store. It fails with
// the call, where that would fail again until somebody mends something.
func (e *election) awaitCall(ctx context.Context, kind string, done func(machine.State) (bool, error)) error {
	if e.over() { // nobody would read the letter
		return nil
	}
	w, begun := &waiter{done: done, kind: kind, answer: make(chan error, 1)}, time.Now()
	e.mail.put(letter{wait: w})
	select {
	case err := <-w.answer:
		return err
	case <-e.done:
		return nil
	case <-ctx.Done():
		if f := e.lastErr.Load(); kind != "" && f != nil && !f.at.Before(begun) {
			return fmt.Errorf("%w: %w", ctx.Err(), f.err)
		}
		return ctx.Err()
	}
}

// A waiter waits for a state of the loop.
type waiter struct {
	done   func(machine.State) (bool, error)
	kind   string // of the call to the store that it takes, if any
	answer chan error
}

func (e *election) Observe(ctx context.Context) iter.Seq[LeaderInfo] {
	return func(yield func(LeaderInfo) bool) {
		slot := newMailslot()
		e.mu.Lock()
		// With the lock, which tellLeader needs: a state that is older than one told
		// meanwhile must not take its place.
		slot.put(e.leader())
		if e.watchers == nil {
			e.watchers = map[*mailslot]struct{}{}
		}
		e.watchers[slot] = struct{}{}
		e.mu.Unlock()
		defer func() {
			e.mu.Lock()
			delete(e.watchers, slot)
			e.mu.Unlock()
		}()
		for info := range slot.all(ctx, e.done) {
			if !yield(info) {
				return
			}
		}
	}
}

var _ Election = (*election)(nil)
