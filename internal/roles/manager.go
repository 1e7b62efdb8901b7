// Package roles takes part in the elections of many roles that belong together:
// it bounds how many this instance leads, spreads them evenly over the
// instances, and asks once for all of them whether the instance is healthy.
//
// Each role has its own candidate, which decides alone whether it leads. The
// manager is the candidates' supervisor: it may keep one from campaigning, and
// may ask a leader for its role.
//
// Every change of a manager is one step (Manager.step): the steps of Start, Add,
// Remove, Stop, the candidates and the health checks queue for the one lock. A
// step waits for nothing, and calls no callback, hook, Logger or store, except
// the store's ConnState, which does not block. The others are called between
// steps, by a goroutine that holds nothing. So a call waits for no other call,
// except that Stop and Remove wait for the check of a Start or an Add under way.
// Stop cuts the check short.
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

// Errors of a Manager, in addition to a candidate's.
var (
	ErrExists  = errors.New("leader: the role exists")
	ErrUnknown = errors.New("leader: unknown role")
)

// A Config describes an instance that takes part in the elections of many
// roles. See leader.RoleManagerConfig for what each setting means.
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
	shut  chan struct{} // the store is permanently closed; holds one
	quit  chan struct{} // closed when a stop was asked for
	done  chan struct{} // closed when nothing is left
	tasks sync.WaitGroup
	// closed is set, before done is closed, when the store was found
	// permanently closed, which ends the manager.
	closed error
	// goid is the id of the manager's goroutine, which calls hooks, 0 without
	// one.
	goid atomic.Uint64

	io    context.Context //nolint:containedctx // ends what the manager asks of the store, and nothing else
	abort context.CancelFunc
	// health is the context of the health checks, and of the check of the store
	// before the start. It ends before io.
	health    context.Context //nolint:containedctx // as io
	endHealth context.CancelFunc

	mu          sync.Mutex // guards the fields below, and the parts of candidacies that are marked so; only step locks it
	starting    bool       // a call of Start is under way
	started     bool
	stopped     bool
	parent      context.Context //nolint:containedctx // of Start, for roles that are added later
	verdicts    verdicts
	sick        *machine.Event // why no role may be led: the instance is unhealthy
	candidacies map[string]*candidacy
	warnings    map[string]struct{} // of the store, reported already
	readers     map[*reader]struct{}
	ledger
}

// New returns a manager whose roles live in st. Nothing happens before Start.
func New(st store.Store, cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, store: st,
		wake: make(chan struct{}, 1), shut: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		candidacies: make(map[string]*candidacy), warnings: make(map[string]struct{}), readers: make(map[*reader]struct{}),
		ledger: ledger{others: make(map[string]int)},
	}
	m.cfg.Health.Tell, m.cfg.Health.Panicked = m.verdict, m.checkPanicked
	m.io, m.abort = context.WithCancel(context.Background())
	m.health, m.endHealth = context.WithCancel(m.io)
	return m
}

// SetDispose sets Config.Dispose, before Start.
func (m *Manager) SetDispose(f func()) { m.cfg.Dispose = f }

// Done returns a channel that is closed when the manager has ended.
func (m *Manager) Done() <-chan struct{} { return m.done }

// Err returns why the manager has ended by itself, nil if it has not.
func (m *Manager) Err() error {
	select {
	case <-m.done:
		return m.closed
	default:
		return nil
	}
}

// breakOff ends the manager, since its store is permanently closed, unless
// somebody has asked for a stop. Each of its elections ends for the same
// reason.
func (m *Manager) breakOff() {
	stopped := false
	m.step(func() {
		if stopped = m.stopped; !stopped {
			m.closed = fmt.Errorf("leader: all roles have ended: %w", store.ErrClosed)
		}
	})
	if stopped {
		return
	}
	for _, s := range m.allCandidacies() {
		s.c.Sever(store.ErrClosed)
	}
	m.askStop(false)
}

// step changes the state, alone. f does not wait, and calls no code but ours:
// what may wait it leaves to later.
func (m *Manager) step(f func()) {
	for _, effect := range m.change(f) {
		effect()
	}
}

func (m *Manager) change(f func()) (effects []func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	effects, m.effects = m.effects, nil
	return effects
}

// later has effect called when the step is over: it may wait, or call the
// manager. So it reads nothing that mu guards.
func (m *Manager) later(effect func()) { m.effects = append(m.effects, effect) }

// log writes a line when the step is over. It ignores a panic of the Logger.
func (m *Manager) log(level slog.Level, msg string, attrs ...any) {
	m.later(func() {
		shield.Call(func() {
			m.cfg.Log.Log(context.Background(), level, msg, attrs...) //nolint:sloglint // each msg is a constant
		}, func(any, []byte) {})
	})
}

// Start has the store checked for each role, and begins to take part. Roles
// that are added meanwhile are checked, too.
func (m *Manager) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.claimStart(); err != nil {
		return err
	}
	defer m.endStart()
	candidacies := m.allCandidacies()
	for more := candidacies; ; candidacies = append(candidacies, more...) {
		m.check(ctx, more)
		var err error
		if more, err = m.open(ctx, candidacies); err != nil {
			return err
		}
		if len(more) == 0 {
			break
		}
	}
	for _, s := range candidacies {
		// The election of one role may have been removed, stopped or started by
		// itself, which is not an error of the others.
		if err := s.launch(ctx); errors.Is(err, engine.ErrStopped) && m.isStopped() {
			return err
		}
	}
	return nil
}

// isStopped reports whether the manager was asked to stop.
func (m *Manager) isStopped() (stopped bool) {
	m.step(func() { stopped = m.stopped })
	return stopped
}

// claimStart lets Start begin.
func (m *Manager) claimStart() (err error) {
	m.step(func() {
		switch {
		case m.stopped:
			err = engine.ErrStopped
		case m.started, m.starting:
			err = engine.ErrAlreadyStarted
		}
		m.starting = m.starting || err == nil
	})
	return err
}

// endStart ends a call of Start. If quitOnce left the end of the manager to this
// call, the manager ends: nothing uses the store any more.
func (m *Manager) endStart() {
	m.step(func() {
		m.starting = false
		select {
		case <-m.quit:
			if !m.started {
				m.later(func() { go m.live("end", m.end) })
			}
		default:
		}
	})
}

// open starts the manager's own goroutine, unless something is wrong, or roles
// were added that have not been checked yet.
func (m *Manager) open(ctx context.Context, checked []*candidacy) (more []*candidacy, err error) {
	m.step(func() {
		wrong := wrongOf(checked)
		more = slices.DeleteFunc(m.sorted(), func(s *candidacy) bool { return slices.Contains(checked, s) })
		switch {
		case m.stopped: // the stop has cut the check short
			err = engine.ErrStopped
		case wrong != nil:
			err = wrong
		case len(more) == 0:
			m.launch(ctx)
		}
	})
	return more, err
}

// launch starts what runs until the manager ends. It belongs to a step.
func (m *Manager) launch(ctx context.Context) {
	m.started, m.parent = true, ctx
	// The current state of the roles has to arrive first.
	m.next = time.Now().Add(jittered(2 * m.cfg.HeartbeatInterval))
	if m.cfg.Health.Check != nil {
		m.tasks.Go(func() {
			for !m.guard("health checks", func() { m.cfg.Health.Follow(m.health) }) && backoff.Sleep(m.health, m.cfg.TTL) {
			}
		})
	}
	go m.live("manager", func() { m.run(ctx) })
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
// is logged, and ends spreading, whose counts may be wrong now. The roles'
// elections go on.
func (m *Manager) guard(what string, f func()) bool {
	return shield.Call(func() {
		faults.Point("roles: " + what)
		f()
	}, func(value any, stack []byte) {
		m.step(func() {
			attrs := []any{"of", what, "value", shield.Value(value)}
			own := what != "asking" && what != "connection" // in these the store may have panicked
			if own && m.cfg.Spread {
				m.cfg.Spread, m.pull = false, nil
				attrs = append(attrs, "spreading", "ended")
			}
			m.log(slog.LevelError, "panic", append(attrs, "stack", string(stack))...)
		})
	})
}

// disposals is how often a manager tries to end what it owns of the store, if
// that panics.
const disposals = 3

// close ends the manager's use of the store. A panic in one step must not leave
// a watch open permanently.
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

// check has the store checked for each role.
func (m *Manager) check(ctx context.Context, candidacies []*candidacy) {
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
	for _, s := range candidacies {
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
}

// wrongOf returns the faults that need a repair, for roles that are not leaving
// and whose elections have not ended. Its caller is a step. A fault that passes
// by itself is left to the candidate, which goes on trying.
func wrongOf(candidacies []*candidacy) error {
	var wrong []error
	for _, s := range candidacies {
		if store.Classify(s.unready) == store.Permanent && !s.going && !s.c.Over() {
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
	if err := ctx.Err(); err != nil {
		return err
	}
	s, running := m.newCandidacy(role), false
	var err error
	m.step(func() { running, err = m.admit(s) })
	if err != nil || !running {
		return err
	}
	err = s.join(ctx)
	if err != nil {
		_ = m.remove(ctx, s) // it does not run, or the caller's time is over
	}
	return err
}

func (m *Manager) newCandidacy(role Role) *candidacy {
	s := &candidacy{m: m, name: role.Name, end: func() {}, own: role.Config.Standing, policy: role.Config.VersionPolicy}
	role.Config.Supervisor = s
	s.c = engine.New(m.store, role.Config)
	role.Register(s.c)
	return s
}

// admit takes a role in, and reports whether it is to be started now. m.mu is
// held.
func (m *Manager) admit(s *candidacy) (running bool, err error) {
	switch {
	case m.stopped:
		return false, engine.ErrStopped
	case m.candidacies[s.name] != nil:
		return false, fmt.Errorf("%w: %q", ErrExists, s.name)
	}
	m.candidacies[s.name] = s
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
	var s *candidacy
	m.step(func() { s = m.candidacies[name] })
	if s == nil {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	return m.remove(ctx, s)
}

func (m *Manager) remove(ctx context.Context, s *candidacy) error {
	m.forgetLater(s)
	err := s.c.Stop(ctx, engine.StopOptions{DeleteKey: true, WaitForDemote: true})
	if s.c.Over() && s.c.Working() == nil {
		m.forget(s) // so that a role of this name can be added when Remove has returned
	}
	return err
}

// forgetLater forgets the role when its election has ended, and its work.
func (m *Manager) forgetLater(s *candidacy) {
	m.step(func() {
		if s.going || m.stopped {
			return // then the manager waits for all elections anyway
		}
		s.going = true
		m.tasks.Go(func() {
			<-s.c.Done()
			m.afterWork(s, "forgetting a role", func() { m.forget(s) })
		})
	})
}

// afterWork calls do when the work of an election that has ended has returned,
// as an election ends beside work that outlives DemoteTimeout. The manager ends
// beside it, too: then do is not called, and no role takes the room any more.
func (m *Manager) afterWork(s *candidacy, what string, do func()) {
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
func (m *Manager) forget(s *candidacy) {
	m.step(func() {
		if m.candidacies[s.name] != s {
			return
		}
		m.settle(s, vacant)
		m.unlist(s)
		if s.shown.State != machine.Ended { // it never ran
			m.publish(s)
		}
		delete(m.candidacies, s.name)
		s.end()
		m.nudge()
	})
}

// Candidate returns the candidate of a role, or nil if there is no such role.
func (m *Manager) Candidate(name string) (c *engine.Candidate) {
	m.step(func() {
		if s := m.candidacies[name]; s != nil {
			c = s.c
		}
	})
	return c
}

// Stop stops all roles at the same time, each as a candidate does.
func (m *Manager) Stop(ctx context.Context, opts engine.StopOptions) error {
	candidacies := m.askStop(opts.DeleteKey)
	if m.inside(candidacies) {
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
	for i, err := range awaitCandidacies(ctx, candidacies, opts) {
		errs[engine.ErrStopTimeout] = errs[engine.ErrStopTimeout] || errors.Is(err, engine.ErrStopTimeout)
		errs[engine.ErrDemoteTimeout] = errs[engine.ErrDemoteTimeout] || errors.Is(err, engine.ErrDemoteTimeout)
		if ended := candidacies[i].c.Ended(); broken == nil && err != nil && ended != nil {
			broken = fmt.Errorf("role %q: %w", candidacies[i].name, ended) // the first: each has been reported
		}
	}
	if errs[engine.ErrStopTimeout] {
		return errors.Join(fmt.Errorf("%w: %w", engine.ErrStopTimeout, ctx.Err()), broken)
	}
	// Await this whatever the roles return: a health check may still look at
	// something that the program closes next.
	end := m.awaitEnd(ctx, opts.WaitForDemote)
	if broken != nil && !errors.Is(end, engine.ErrStopTimeout) {
		end = nil // it is the same
	}
	if errs[engine.ErrDemoteTimeout] {
		end = join(end, engine.ErrDemoteTimeout)
	}
	return join(end, broken)
}

// awaitCandidacies stops the election of each candidacy in turn, and returns
// what each answers. It counts the call at all of them first: this call has been
// promised the release of each role, also of one that it has not come to when
// another call gives up.
func awaitCandidacies(ctx context.Context, candidacies []*candidacy, opts engine.StopOptions) []error {
	for _, s := range candidacies {
		s.c.Attend()
	}
	errs := make([]error, len(candidacies))
	for i, s := range candidacies {
		errs[i] = s.c.Stop(ctx, opts)
	}
	for i, s := range candidacies {
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
func (m *Manager) inside(candidacies []*candidacy) bool {
	id := m.goid.Load()
	return id != 0 && id == goid.Current() ||
		slices.ContainsFunc(candidacies, func(s *candidacy) bool { return s.c.Inside() })
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

// askStop asks all elections to stop, before anybody waits for one of them.
func (m *Manager) askStop(release bool) []*candidacy {
	m.step(func() { m.stopped = true })
	candidacies := m.allCandidacies()
	for _, s := range candidacies {
		s.c.AskStop(release)
	}
	m.step(m.quitOnce)
	return candidacies
}

// quitOnce makes the manager end. If the manager has no goroutine yet, a call
// of Start under way ends it, because its checks still use the store; otherwise
// this call ends it. It belongs to a step.
func (m *Manager) quitOnce() {
	select {
	case <-m.quit:
		return
	default:
		close(m.quit)
	}
	switch {
	case m.started:
	case m.starting:
		m.later(m.endHealth) // cuts the checks short
	default:
		m.later(func() { go m.live("end", m.end) })
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

// turn does the due work, and returns when to look again. The wake-up that led
// here is spent: after a panic the clock has to replace it.
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
	for _, s := range m.allCandidacies() {
		<-s.c.Done()
	}
	m.publishUnstarted()
	defer close(m.done)
	m.abort()
	m.tasks.Wait()
	if m.cfg.Dispose != nil {
		m.close()
	}
	for _, s := range m.allCandidacies() {
		s.end()
	}
}

// publishUnstarted notifies readers of the end of elections that never ran.
func (m *Manager) publishUnstarted() {
	m.step(func() {
		for _, s := range m.candidacies {
			if s.shown.State != machine.Ended {
				m.publish(s)
			}
		}
	})
}

// followConn makes the manager hear when the store is permanently closed, until
// stop is called.
func (m *Manager) followConn() (stop func()) {
	end := func() {}
	m.guard("connection", func() { end = connstate.WhenClosed(m.store, m.hearClosed) })
	return func() { m.guard("connection", end) }
}

// hearClosed records that the store is permanently closed. It does not block.
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

// allCandidacies returns the roles in the order of their names.
func (m *Manager) allCandidacies() (candidacies []*candidacy) {
	m.step(func() { candidacies = m.sorted() })
	return candidacies
}

// sorted is allCandidacies with m.mu held.
func (m *Manager) sorted() []*candidacy {
	candidacies := make([]*candidacy, 0, len(m.candidacies))
	for _, s := range m.candidacies {
		candidacies = append(candidacies, s)
	}
	slices.SortFunc(candidacies, func(a, b *candidacy) int { return strings.Compare(a.name, b.name) })
	return candidacies
}
