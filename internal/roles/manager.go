// Package roles takes part in the elections of many roles that belong together:
// it bounds how many this instance leads, spreads them evenly over the
// instances, and asks once for all of them whether the instance is healthy.
//
// Each role has a candidate of its own, which decides alone whether it leads.
// The manager is the candidates' supervisor: it may keep one from campaigning,
// and may ask a leader for its role.
package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/connstate"
	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// Errors of a Manager, besides those of a candidate.
var (
	ErrExists  = errors.New("leader: the role exists")
	ErrUnknown = errors.New("leader: unknown role")
)

// A Config describes an instance that takes part in the elections of many
// roles. leader.RoleManagerConfig says what each setting means.
type Config struct {
	InstanceID        string
	TTL               time.Duration
	HeartbeatInterval time.Duration
	ConnectionTimeout time.Duration
	DeleteOnStop      bool
	MaxRoles          int
	Spread            bool
	Pace              float64

	Log *slog.Logger
	// Health, if its Check is not nil, is asked once for all roles.
	Health engine.Health
	// Note reports a note about the health of the instance while no election
	// runs that would.
	Note func(engine.Note)
	// Dispose, if not nil, ends what the manager owns of the store.
	Dispose func()
}

// A Manager takes part in the elections of many roles. Its methods may be
// called concurrently and from within callbacks; leader.RoleManager describes
// them.
type Manager struct {
	cfg   Config
	store store.Store

	wake  chan struct{} // something changed that spreading depends on; holds one
	shut  chan struct{} // the store is closed for good; holds one
	quit  chan struct{} // closed when a stop was asked for
	quits sync.Once     // closes quit
	done  chan struct{} // closed when nothing is left
	tasks sync.WaitGroup
	// closed is set when the store was found closed for good, which ends the
	// manager.
	closed atomic.Pointer[error]
	// goid is the id of the manager's goroutine, which calls hooks, 0 without
	// one.
	goid atomic.Uint64

	io    context.Context //nolint:containedctx // ends what the manager asks of the store, and nothing else
	abort context.CancelFunc
	// health is the context of the health checks, and of the check of the store
	// before the start. It ends before io.
	health    context.Context //nolint:containedctx // as io
	endHealth context.CancelFunc
	verdicts  verdicts

	mu       sync.Mutex    // guards what follows, and the parts of seats that say so
	starting chan struct{} // closed when the call of Start under way returns; nil without one
	started  bool
	stopped  bool
	parent   context.Context //nolint:containedctx // of Start, for roles that are added later
	sick     *machine.Event  // why no role may be led: the instance is unhealthy
	seats    map[string]*seat
	warnings map[string]struct{} // of the store, reported already
	readers  map[*reader]struct{}
	ledger
}

// New returns a manager whose roles live in st. Nothing happens before Start.
func New(st store.Store, cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, store: st,
		wake: make(chan struct{}, 1), shut: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		seats: make(map[string]*seat), warnings: make(map[string]struct{}), readers: make(map[*reader]struct{}),
		ledger: ledger{others: make(map[string]int)},
	}
	m.verdicts.wake = make(chan struct{}, 1)
	m.cfg.Health.Tell, m.cfg.Health.Panicked = m.verdicts.tell, m.verdicts.panicked
	m.io, m.abort = context.WithCancel(context.Background())
	m.health, m.endHealth = context.WithCancel(m.io)
	return m
}

// SetDispose sets Config.Dispose, before Start.
func (m *Manager) SetDispose(f func()) { m.cfg.Dispose = f }

// Done returns a channel that is closed when the manager has ended for good.
func (m *Manager) Done() <-chan struct{} { return m.done }

// Err returns why the manager has ended by itself, nil if it has not.
func (m *Manager) Err() error {
	select {
	case <-m.done:
		return m.closedError()
	default:
		return nil
	}
}

// closedError is why the manager has ended by itself, or is about to.
func (m *Manager) closedError() error {
	if err := m.closed.Load(); err != nil {
		return *err
	}
	return nil
}

// breakOff ends the manager, since its store is closed for good, unless
// somebody has asked for a stop. Each of its elections ends for the same
// reason.
func (m *Manager) breakOff() {
	m.mu.Lock()
	stopped := m.stopped
	if !stopped {
		err := fmt.Errorf("leader: all roles have ended: %w", store.ErrClosed)
		m.closed.Store(&err)
	}
	m.mu.Unlock()
	if stopped {
		return
	}
	for _, s := range m.allSeats() {
		s.c.Sever(store.ErrClosed)
	}
	m.askStop(false)
}

// Start has the store checked for each role, and begins to take part.
func (m *Manager) Start(ctx context.Context) error {
	if err := m.apart(ctx, m.claimStart); err != nil {
		return err
	}
	defer m.endStart()
	seats := m.allSeats()
	if err := m.open(ctx, m.check(ctx, seats)); err != nil {
		return err
	}
	for _, s := range seats {
		// The election of one role may have been removed, stopped or started by
		// itself, which is no failure of the others.
		if err := s.launch(ctx); errors.Is(err, engine.ErrStopped) && m.isStopped() {
			return err
		}
	}
	return nil
}

// isStopped reports whether the manager was told to stop.
func (m *Manager) isStopped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped
}

// leaves reports whether a role is being removed, or was, or whether its
// election has ended: then it needs no store.
func (m *Manager) leaves(s *seat) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.going || s.c.Over()
}

// apart calls do with m.mu held, as soon as no call of Start is under way: that
// would overlook a role that comes while the store is checked. It gives up with
// ctx, since the check takes its time.
func (m *Manager) apart(ctx context.Context, do func() error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		busy, err := m.attempt(do)
		if busy == nil {
			return err
		}
		select {
		case <-busy:
		case <-ctx.Done():
		}
	}
}

// attempt calls do with m.mu held, or returns what is closed when the call of
// Start under way returns.
func (m *Manager) attempt(do func() error) (busy <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.starting != nil {
		return m.starting, nil
	}
	return nil, do()
}

// claimStart lets Start begin. m.mu is held.
func (m *Manager) claimStart() error {
	switch {
	case m.stopped:
		return engine.ErrStopped
	case m.started:
		return engine.ErrAlreadyStarted
	}
	m.starting = make(chan struct{})
	return nil
}

func (m *Manager) endStart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.starting)
	m.starting = nil
}

// open starts the manager's own goroutine, unless something is wrong.
func (m *Manager) open(ctx context.Context, wrong error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.stopped: // the stop has cut the check short
		return engine.ErrStopped
	case wrong != nil:
		return wrong
	}
	m.started, m.parent = true, ctx
	// The present state of the roles has to arrive first.
	m.next = time.Now().Add(jittered(2 * m.cfg.HeartbeatInterval))
	if m.cfg.Health.Check != nil {
		m.tasks.Go(func() {
			for !m.guard("health checks", func() { m.cfg.Health.Follow(m.health) }) && backoff.Sleep(m.health, m.cfg.TTL) {
			}
		})
	}
	go m.live("manager", func() { m.run(ctx) })
	return nil
}

// live is the manager's goroutine, which ends when f returns. A panic and
// runtime.Goexit take it along, and it has a successor, which sleeps first:
// what panics may do so again.
func (m *Manager) live(what string, f func()) {
	ended := false
	defer func() {
		if !ended {
			go func() {
				backoff.Sleep(context.Background(), m.cfg.HeartbeatInterval)
				m.live(what, f)
			}()
		}
	}()
	ended = m.guard(what, f)
}

// guard calls f, which is ours, and reports whether it returned. A panic of it
// is reported, and no more: the roles' elections look after themselves, and
// without the manager they only spread no longer.
func (m *Manager) guard(what string, f func()) bool {
	return shield.Call(func() {
		faults.Point("roles: " + what)
		f()
	}, func(value any, stack []byte) {
		shield.Call(func() { m.cfg.Log.Error("panic", "of", what, "value", shield.Value(value), "stack", string(stack)) }, func(any, []byte) {})
	})
}

// disposals is how often a manager tries to end what it owns of the store, if
// that panics.
const disposals = 3

// close ends what the manager owns of the store. One panic is no reason to
// leave a watch behind for good.
func (m *Manager) close() {
	for range disposals {
		if m.guard("dispose", m.cfg.Dispose) {
			return
		}
		backoff.Sleep(context.Background(), m.cfg.HeartbeatInterval)
	}
}

// checks is how many roles are checked at a time.
const checks = 64

// check has the store checked for each role, and returns what has to be
// repaired.
func (m *Manager) check(ctx context.Context, seats []*seat) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.health, cancel)()
	var (
		all      sync.WaitGroup
		answered atomic.Pointer[time.Time]
	)
	// Roles would wait in turn for a store that does not answer, each for as
	// long as a candidate does. So they have one deadline, which each answer
	// puts off: a store that is slow is checked to the end.
	patience := max(m.cfg.ConnectionTimeout, 2*time.Second)
	heard := func() {
		now := time.Now()
		answered.Store(&now)
	}
	heard()
	room := make(chan struct{}, checks)
	for _, s := range seats {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			ctx, cancel := context.WithDeadline(ctx, answered.Load().Add(patience))
			defer cancel()
			s.conditions, s.unready = s.c.CheckStore(ctx)
			if o := store.Classify(s.unready); o == store.OK || o == store.Permanent {
				heard()
			}
		})
	}
	all.Wait()
	var wrong []error
	for _, s := range seats {
		// What passes by itself is left to the candidate, which goes on trying.
		if store.Classify(s.unready) == store.Permanent && !m.leaves(s) {
			wrong = append(wrong, fmt.Errorf("role %q: %w", s.name, s.unready))
		}
	}
	return errors.Join(wrong...)
}

// A Role is one role: its name, the settings of its candidate but for the
// Supervisor, and what registers the callbacks.
type Role struct {
	Name     string
	Config   engine.Config
	Register func(*engine.Candidate)
}

// Add adds a role, and starts its candidate if the manager runs.
func (m *Manager) Add(ctx context.Context, role Role) error {
	s, running := m.newSeat(role), false
	err := m.apart(ctx, func() (err error) {
		running, err = m.seat(s)
		return err
	})
	if err != nil || !running {
		return err
	}
	err = s.join(ctx)
	if err != nil {
		_ = m.remove(ctx, s) // it does not run, or the caller's time is over
	}
	return err
}

func (m *Manager) newSeat(role Role) *seat {
	s := &seat{m: m, name: role.Name, end: func() {}, own: role.Config.Standing, policy: role.Config.VersionPolicy}
	role.Config.Supervisor = s
	s.c = engine.New(m.store, role.Config)
	role.Register(s.c)
	return s
}

// seat takes a role in, and reports whether it is to be started now. m.mu is
// held.
func (m *Manager) seat(s *seat) (running bool, err error) {
	switch {
	case m.stopped:
		return false, engine.ErrStopped
	case m.seats[s.name] != nil:
		return false, fmt.Errorf("%w: %q", ErrExists, s.name)
	}
	m.seats[s.name] = s
	// An unhealthy instance leads no new role either.
	if m.sick != nil {
		s.c.Bar(*m.sick)
	}
	m.fill()
	m.publish(s)
	return m.started, nil
}

// Remove removes a role when its term has ended and its record is released.
func (m *Manager) Remove(ctx context.Context, name string) error {
	m.mu.Lock()
	s := m.seats[name]
	m.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	return m.remove(ctx, s)
}

func (m *Manager) remove(ctx context.Context, s *seat) error {
	m.forgetLater(s)
	err := s.c.Stop(ctx, engine.StopOptions{DeleteKey: true, WaitForDemote: true})
	if s.c.Over() && s.c.Working() == nil {
		m.forget(s) // so that a role of this name can be added when Remove has returned
	}
	return err
}

// forgetLater forgets the role when its election has ended, and its work.
func (m *Manager) forgetLater(s *seat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.going || m.stopped {
		return // then the manager waits for all elections anyway
	}
	s.going = true
	m.tasks.Go(func() {
		<-s.c.Done()
		m.afterWork(s, "forgetting a role", func() { m.forget(s) })
	})
}

// afterWork calls do when the work of an election that has ended has returned,
// as an election ends beside work that outlives DemoteTimeout. The manager ends
// beside it, too: then do is not called, and no role takes the room any more.
func (m *Manager) afterWork(s *seat, what string, do func()) {
	if working := s.c.Working(); working != nil {
		select {
		case <-working:
		case <-m.io.Done():
			return
		}
	}
	for !m.guard(what, do) && backoff.Sleep(m.io, m.cfg.HeartbeatInterval) {
	}
}

// forget removes a role whose election and work have ended.
func (m *Manager) forget(s *seat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seats[s.name] != s {
		return
	}
	m.settle(s, vacant)
	m.unlist(s)
	if s.shown.State != machine.Ended { // it never ran
		m.publish(s)
	}
	delete(m.seats, s.name)
	s.end()
	m.nudge()
}

// Candidate returns the candidate of a role, or nil if there is no such role.
func (m *Manager) Candidate(name string) *engine.Candidate {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.seats[name]; s != nil {
		return s.c
	}
	return nil
}

// Stop stops all roles at the same time, each as a candidate does.
func (m *Manager) Stop(ctx context.Context, opts engine.StopOptions) error {
	seats := m.askStop(opts.DeleteKey)
	if m.inside(seats) {
		return nil // the caller is what the stop has to wait for
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Timeout)
		defer cancel()
	}
	opts.Timeout = 0
	errs := make(map[error]bool)
	var broken error
	for i, err := range awaitSeats(ctx, seats, opts) {
		errs[engine.ErrStopTimeout] = errs[engine.ErrStopTimeout] || errors.Is(err, engine.ErrStopTimeout)
		errs[engine.ErrDemoteTimeout] = errs[engine.ErrDemoteTimeout] || errors.Is(err, engine.ErrDemoteTimeout)
		if ended := seats[i].c.Ended(); broken == nil && err != nil && ended != nil {
			broken = fmt.Errorf("role %q: %w", seats[i].name, ended) // the first: each has been reported
		}
	}
	if errs[engine.ErrStopTimeout] {
		return errors.Join(fmt.Errorf("%w: %w", engine.ErrStopTimeout, ctx.Err()), broken)
	}
	// Whatever the roles say: a health check is awaited, which may look at what
	// the program closes next.
	end := m.awaitEnd(ctx, opts.WaitForDemote)
	if broken != nil && !errors.Is(end, engine.ErrStopTimeout) {
		end = nil // it is the same
	}
	if errs[engine.ErrDemoteTimeout] {
		end = join(end, engine.ErrDemoteTimeout)
	}
	return join(end, broken)
}

// awaitSeats stops the election of each seat in turn, and returns what each
// answers. It counts the call at all of them first: this call has been promised
// the release of each role, also of one that it has not come to when another
// call gives up.
func awaitSeats(ctx context.Context, seats []*seat, opts engine.StopOptions) []error {
	for _, s := range seats {
		s.c.Attend()
	}
	errs := make([]error, len(seats))
	for i, s := range seats {
		errs[i] = s.c.Stop(ctx, opts)
	}
	for i, s := range seats {
		s.c.Depart(errors.Is(errs[i], engine.ErrStopTimeout))
	}
	return errs
}

// join is errors.Join, but leaves a single error as it is.
func join(one, other error) error {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	default:
		return errors.Join(one, other)
	}
}

// inside reports whether the caller is a callback or a hook.
func (m *Manager) inside(seats []*seat) bool {
	id := m.goid.Load()
	return id != 0 && id == goid.Current() ||
		slices.ContainsFunc(seats, func(s *seat) bool { return s.c.Inside() })
}

// awaitEnd waits for what is left when no election is, if that is wanted.
func (m *Manager) awaitEnd(ctx context.Context, wanted bool) error {
	if !wanted {
		return nil
	}
	select {
	case <-m.done:
		return m.Err()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrStopTimeout, ctx.Err())
	}
}

// askStop tells all elections to stop, before anybody waits for one of them.
func (m *Manager) askStop(release bool) []*seat {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	seats := m.allSeats()
	for _, s := range seats {
		s.c.AskStop(release)
	}
	m.quits.Do(func() {
		close(m.quit)
		m.endUnstarted()
	})
	return seats
}

// endUnstarted ends a manager that has no goroutine of its own, and will have
// none, since it is stopped. A call of Start under way is told to give up, and
// awaited: it still uses the store. That takes a goroutine, as a call of Stop
// waits no longer than its caller wants.
func (m *Manager) endUnstarted() {
	m.mu.Lock()
	started, starting := m.started, m.starting
	m.mu.Unlock()
	switch {
	case started:
	case starting == nil:
		m.end()
	default:
		m.endHealth()
		go m.live("end of a start", func() {
			<-starting
			m.end()
		})
	}
}

// run is the manager's goroutine. It spreads roles, and ends what the manager
// began.
func (m *Manager) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	if m.cfg.Health.Check != nil {
		m.goid.Store(goid.Current()) // hooks are called from here
	}
	defer m.followConn()()
	for {
		faults.Point("roles: turn")
		select {
		case <-m.wake:
		case <-m.shut:
			m.guard("a closed store", m.breakOff)
		case <-timer.C:
		case <-m.verdicts.wake:
		case <-stop:
			if m.stopAll() {
				stop = nil
			}
		case <-m.quit:
			m.end()
			return
		}
		timer.Reset(m.turn(time.Now()))
	}
}

// turn does what is due, and returns when to look again. The wake-up that led
// here is spent: after a panic the clock has to stand in for it.
func (m *Manager) turn(now time.Time) time.Duration {
	again := idle
	heard := m.cfg.Health.Check == nil || m.guard("health", m.takeVerdicts)
	looked := m.guard("spreading", func() { again = m.look(now) })
	if !heard || !looked {
		again = min(again, m.cfg.HeartbeatInterval)
	}
	return again
}

// stopAll stops all roles since the manager's context has ended, and reports
// whether that was done. After a panic it sleeps first.
func (m *Manager) stopAll() bool {
	if m.guard("stop", func() { m.askStop(m.cfg.DeleteOnStop) }) {
		return true
	}
	backoff.Sleep(context.Background(), m.cfg.HeartbeatInterval)
	return false
}

// end returns when no role is left, and nothing that the manager began.
func (m *Manager) end() {
	select {
	case <-m.done:
		return // a predecessor of this goroutine came as far as that
	default:
	}
	m.endHealth()
	for _, s := range m.allSeats() {
		<-s.c.Done()
	}
	m.publishUnstarted()
	defer close(m.done)
	m.abort()
	m.tasks.Wait()
	if m.cfg.Dispose != nil {
		m.close()
	}
	for _, s := range m.allSeats() {
		s.end()
	}
}

// publishUnstarted tells readers of the end of elections that never ran.
func (m *Manager) publishUnstarted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.seats {
		if s.shown.State != machine.Ended {
			m.publish(s)
		}
	}
}

// followConn has the manager hear of it when the store is closed for good,
// until stop is called.
func (m *Manager) followConn() (stop func()) {
	end := func() {}
	m.guard("connection", func() { end = connstate.WhenClosed(m.store, m.hearClosed) })
	return func() { m.guard("connection", end) }
}

// hearClosed takes in that the store is closed for good. It does not block.
func (m *Manager) hearClosed() {
	select {
	case m.shut <- struct{}{}:
	default:
	}
}

func (m *Manager) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// allSeats returns the roles in the order of their names.
func (m *Manager) allSeats() []*seat {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sorted()
}

// sorted is allSeats with m.mu held.
func (m *Manager) sorted() []*seat {
	seats := make([]*seat, 0, len(m.seats))
	for _, s := range m.seats {
		seats = append(seats, s)
	}
	slices.SortFunc(seats, func(a, b *seat) int { return strings.Compare(a.name, b.name) })
	return seats
}
