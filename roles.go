package leader

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

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Errors of a RoleManager. ErrAlreadyStarted, ErrStopped, ErrStopTimeout and ErrDemoteTimeout are also among them.
var (
	// ErrRoleExists: the manager has a role of that name, or one that is still being removed.
	ErrRoleExists = errors.New("leader: the role exists")
	// ErrUnknownRole: the manager has no role of that name.
	ErrUnknownRole = errors.New("leader: unknown role")
)

// A RoleManagerConfig describes an instance that takes part in the elections of many roles.
type RoleManagerConfig struct {
	// Election is what all roles have in common. Its Group stays empty: a role's name is its group.
	//
	// Its Hooks are called for each role, those of different roles at the same time; Hooks.PerElection tells which. Its
	// HealthChecker is asked once for all roles.
	Election ElectionConfig
	// MaxRoles is how many roles this instance leads at the most, counting those whose work is still being
	// stopped and those that it is about to lead. At its bound it campaigns for no other: their Status says
	// ReasonFull. Roles that nobody has room for stay without a leader, and the Logger is told. 0: no bound.
	MaxRoles int
	// Spread evens out how many roles each instance leads.
	Spread SpreadConfig
}

// A SpreadConfig says whether and how fast roles are spread evenly over the instances that lead them.
//
// An instance that leads fewer roles than another, by two or more, asks for one of the other's, which is handed over
// as by [Election.Transfer]: the work stops first. It asks for one at a time, and is given none that would leave the other
// with fewer than itself. So differences of one stay as they are, and roles never move in circles. Where a role falls vacant,
// an instance that has its fair share leaves it to others, until nobody has taken a role for TTL/4, at most half a second.
//
// No instance reports its presence for this: each counts by the leaders of the roles that it
// knows itself. Where an instance leaves, each of the others takes its fair share of what it led and no more, for as long as the
// store answers within that time. Instances whose roles differ come to rest as well, though not with equal numbers: each asks
// until it leads its share of the roles that it knows, or nobody leads two more of these than it leads altogether. Give all instances the
// same roles if the numbers are to be equal. A role is never asked of a leader that is preferred for it (by Priority or VersionPolicy). Asking
// needs the right to write the roles' control records.
type SpreadConfig struct {
	// Enabled makes this instance ask for roles and leave vacancies to others. What others ask of it, it gives in any case.
	Enabled bool
	// Pace is the share of all roles that this instance asks for in one TTL, at the most. More than 0 and at
	// most 1; default 0.1.
	Pace float64
}

func (c RoleManagerConfig) withDefaults() RoleManagerConfig {
	c.Election = c.Election.withDefaults()
	def(&c.Spread.Pace, 0.1)
	return c
}

// Validate reports every rule that the configuration breaks, as an error that matches ErrInvalidConfig, or nil.
// NewRoleManager calls it, and demands a bucket besides.
func (c RoleManagerConfig) Validate() error { return c.validate(false, "", true) }

func (c RoleManagerConfig) validate(onNATS bool, what string, given bool) error {
	var v validator
	v.check(c.Election.Group == "", "Election.Group", c.Election.Group, "must be empty: the name of a role is its group")
	v.check(c.MaxRoles >= 0, "MaxRoles", c.MaxRoles, "must not be negative")
	v.check(c.Spread.Pace >= 0 && c.Spread.Pace <= 1, "Spread.Pace", c.Spread.Pace, "must be more than 0 and at most 1")
	role := c.Election
	role.Group = "any"
	return errors.Join(v.err(), role.validate(onNATS, what, given))
}

// A Role is one election of a [RoleManager].
type Role struct {
	// Name is the role's group, with the rules of ElectionConfig.Group. Required.
	Name string
	// Priority, if not 0, takes the place of RoleManagerConfig.Election.Priority.
	Priority int
	// Meta, if not nil, takes the place of RoleManagerConfig.Election.Meta.
	Meta map[string]string

	// The callbacks are those of [Election] with the same names, called as described there; nil for none. Those of
	// different roles are called at the same time.
	OnPromote func(ctx context.Context, token string)
	// OnTerm takes the place of OnPromote, and is given the whole term. Only one of them may be set.
	OnTerm         func(ctx context.Context, term Term)
	OnDemote       func()
	OnLeaderChange func(LeaderInfo)
	OnCampaign     func(Reason)
	// Hooks are called besides RoleManagerConfig.Election.Hooks.
	Hooks Hooks
}

// A RoleManager takes part in the elections of many roles: over one connection, with one watch for all of
// them, and one goroutine each. A role is a group like any other: a RoleManager and a lone Election may be candidates for it
// together. All methods may be called concurrently and from within callbacks. A zero RoleManager is of no use: see [NewRoleManager].
type RoleManager struct {
	cfg   RoleManagerConfig
	store store.Store
	// dispose, optional, ends what the manager owns of the store.
	dispose func()
	log     *slog.Logger
	// doctor asks the HealthChecker on behalf of all roles. It is never started.
	doctor *election

	wake  chan struct{} // something changed that spreading depends on; holds one
	shut  chan struct{} // the store is closed for good; holds one
	quit  chan struct{} // closed when a stop was asked for
	quits sync.Once     // closes quit
	done  chan struct{} // closed when nothing is left
	tasks sync.WaitGroup
	// closed is set when the store was found closed for good, which ends the manager.
	closed atomic.Pointer[failure]

	io    context.Context //nolint:containedctx // ends what the manager asks of the store, and nothing else
	abort context.CancelFunc
	// health is the context of the health checks. It ends before io.
	health    context.Context //nolint:containedctx // as io
	endHealth context.CancelFunc

	life sync.RWMutex // held by Start, and shared by Add, which it must not overtake

	mu       sync.Mutex // guards what follows, and the parts of seats that say so
	started  bool
	stopped  bool
	parent   context.Context //nolint:containedctx // of Start, for roles that are added later
	sick     *machine.Event  // why no role may be led: the instance is unhealthy
	seats    map[string]*seat
	warnings map[string]struct{} // of the store, reported already
	readers  map[*roleInbox]struct{}
	ledger
}

// NewRoleManager returns a manager whose roles live in one NATS JetStream key-value bucket, that of cfg.Election. Nothing
// happens before Start. The connection stays the caller's.
//
// It watches the whole bucket at once, for which the user needs the right to read all of it. For users who may not, and to
// share a store with other elections, there is [NewRoleManagerWithStore].
func NewRoleManager(nc *nats.Conn, cfg RoleManagerConfig) (*RoleManager, error) {
	if err := cfg.validate(true, "connection", nc != nil); err != nil {
		return nil, err
	}
	opts := natsstore.Options{Domain: cfg.Election.JetStreamDomain, WatchWholeBucket: true, Logger: storeLogger(cfg.Election)}
	if cfg.Election.BucketAutoCreate {
		opts.Create = &natsstore.BucketConfig{Replicas: cfg.Election.Replicas}
	}
	st, err := natsstore.New(nc, cfg.Election.Bucket, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	m := newRoleManager(st, cfg)
	m.dispose = st.Close
	return m, nil
}

// NewRoleManagerWithStore returns a manager whose roles live in st. Nothing happens before Start. The store stays the caller's.
func NewRoleManagerWithStore(st store.Store, cfg RoleManagerConfig) (*RoleManager, error) {
	if err := cfg.validate(false, "store", st != nil); err != nil {
		return nil, err
	}
	return newRoleManager(st, cfg), nil
}

func newRoleManager(st store.Store, cfg RoleManagerConfig) *RoleManager {
	cfg = cfg.withDefaults()
	log := cfg.Election.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &RoleManager{
		cfg: cfg, store: st, log: log.With("instance", cfg.Election.InstanceID),
		wake: make(chan struct{}, 1), shut: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		seats: make(map[string]*seat), warnings: make(map[string]struct{}), readers: make(map[*roleInbox]struct{}),
		ledger: ledger{others: make(map[string]int)},
	}
	m.io, m.abort = context.WithCancel(context.Background())
	m.health, m.endHealth = context.WithCancel(m.io)
	if cfg.Election.HealthChecker != nil {
		m.doctor = newElection(st, cfg.Election)
		m.doctor.hooks = cfg.Election.Hooks
	}
	return m
}

// Done returns a channel that is closed when the manager has ended for good: after Stop, when the context of Start has
// ended, or by itself, with all that follows. Err then says which.
func (m *RoleManager) Done() <-chan struct{} { return m.done }

// Err returns nil while the manager runs, and after a stop that was asked for. Otherwise it returns why the manager has
// ended by itself, with all its roles: ErrConnectionClosed.
func (m *RoleManager) Err() error {
	select {
	case <-m.done:
		return m.closedError()
	default:
		return nil
	}
}

// closedError is why the manager has ended by itself, or is about to.
func (m *RoleManager) closedError() error {
	if f := m.closed.Load(); f != nil {
		return f.err
	}
	return nil
}

// breakOff ends the manager, since its store is closed for good, unless somebody
// has asked for a stop. Each of its elections ends for the same reason.
func (m *RoleManager) breakOff() {
	m.mu.Lock()
	stopped := m.stopped
	if !stopped {
		m.closed.Store(&failure{fmt.Errorf("leader: all roles have ended: %w", ErrConnectionClosed), time.Now()})
	}
	m.mu.Unlock()
	if stopped {
		return
	}
	for _, s := range m.allSeats() {
		if s.e.breakOff(ErrConnectionClosed) {
			s.e.mail.put(letter{closed: ErrConnectionClosed})
		}
	}
	m.askStop(false)
}

// Start begins to take part in the elections of all roles that were added, in the background. The store is
// checked first, as [Election.Start] does it; what has to be mended there, for any role, is returned, nothing is
// started then, and Start may be called again. When ctx is done, also later, the manager stops as by Stop. When the store's
// connection is closed for good, it ends by itself: see Err.
//
// Other errors are ErrAlreadyStarted, ErrStopped and that of a ctx that is done already.
func (m *RoleManager) Start(ctx context.Context) error {
	m.life.Lock()
	defer m.life.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.startable(); err != nil {
		return err
	}
	seats := m.allSeats()
	if err := m.check(ctx, seats); err != nil {
		return err
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	var errs []error
	for _, s := range seats {
		errs = append(errs, s.launch(ctx))
	}
	// The only error left is that of a role whose election somebody has started or stopped by itself.
	return errors.Join(errs...)
}

func (m *RoleManager) startable() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.stopped:
		return ErrStopped
	case m.started:
		return ErrAlreadyStarted
	}
	return nil
}

// open starts the manager's own goroutine.
func (m *RoleManager) open(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return ErrStopped
	}
	m.started, m.parent = true, ctx
	// The present state of the roles has to arrive first.
	m.next = time.Now().Add(jittered(2 * m.cfg.Election.HeartbeatInterval))
	if m.doctor != nil {
		m.tasks.Go(func() {
			for !m.guard("health checks", func() { m.doctor.followHealth(m.health) }) && sleep(m.health, m.cfg.Election.TTL) {
			}
		})
	}
	go m.live(ctx)
	return nil
}

// live is the manager's goroutine. A panic and runtime.Goexit take it along, and
// it has a successor, which rests first: what panics may do so again.
func (m *RoleManager) live(ctx context.Context) {
	ended := false
	defer func() {
		if !ended {
			go func() {
				sleep(context.Background(), m.cfg.Election.HeartbeatInterval)
				m.live(ctx)
			}()
		}
	}()
	ended = m.guard("manager", func() { m.run(ctx) })
}

// guard calls f, which is ours, and reports whether it returned. A panic of it is reported, and no more: the roles' elections
// look after themselves, and without the manager they only spread no longer.
func (m *RoleManager) guard(what string, f func()) bool {
	return shield.Call(func() {
		faults.Point("roles: " + what)
		f()
	}, func(value any, stack []byte) {
		shield.Call(func() { m.log.Error("panic", "of", what, "value", shield.Value(value), "stack", string(stack)) }, reported)
	})
}

// disposals is how often a manager tries to end what it owns of the store, if that
// panics.
const disposals = 3

// close ends what the manager owns of the store. One panic is no reason to leave
// a watch behind for good.
func (m *RoleManager) close() {
	for range disposals {
		if m.guard("dispose", m.dispose) {
			return
		}
		sleep(context.Background(), m.cfg.Election.HeartbeatInterval)
	}
}

// checks is how many roles are checked at a time.
const checks = 64

// check has the store checked for each role, and returns what has to be mended.
func (m *RoleManager) check(ctx context.Context, seats []*seat) error {
	var all sync.WaitGroup
	room := make(chan struct{}, checks)
	for _, s := range seats {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			s.unready = unknownAfterPanic("Check")
			s.e.guard("check", func() { s.rules, s.unready = s.e.ready(ctx) })
		})
	}
	all.Wait()
	var wrong []error
	for _, s := range seats {
		if store.Classify(s.unready) == store.Permanent {
			wrong = append(wrong, fmt.Errorf("role %q: %w", s.name, s.unready))
		}
	}
	return errors.Join(wrong...)
}

// Add adds a role. Before Start that is all. Later it is started at once, with the check and the errors of [Election.Start]; it
// is not added then if there is an error. ctx bounds the call and not the role.
//
// Other errors are ErrInvalidConfig, ErrRoleExists and ErrStopped.
func (m *RoleManager) Add(ctx context.Context, role Role) error {
	m.life.RLock()
	defer m.life.RUnlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	cfg := m.configOf(role)
	if err := errors.Join(role.validate(), cfg.validate(false, "", true)); err != nil {
		return err
	}
	s := newSeat(m, cfg, role)
	running, err := m.seat(s)
	if err != nil || !running {
		return err
	}
	err = s.join(ctx)
	if err != nil {
		_ = m.remove(ctx, s) // it does not run, or the caller's time is over
	}
	return err
}

func (r Role) validate() error {
	var v validator
	v.check(r.OnPromote == nil || r.OnTerm == nil, "OnTerm", "(a function)", "must be nil where OnPromote is set: they are one callback")
	return v.err()
}

func (m *RoleManager) configOf(role Role) ElectionConfig {
	cfg := m.cfg.Election
	cfg.Group, cfg.HealthChecker = role.Name, nil
	cfg.Hooks = JoinHooks(cfg.Hooks, role.Hooks)
	if role.Priority != 0 {
		cfg.Priority = role.Priority
	}
	if role.Meta != nil {
		cfg.Meta = role.Meta
	}
	return cfg
}

// seat takes a role in, and tells whether it is to be started now.
func (m *RoleManager) seat(s *seat) (running bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.stopped:
		return false, ErrStopped
	case m.seats[s.name] != nil:
		return false, fmt.Errorf("%w: %q", ErrRoleExists, s.name)
	}
	m.seats[s.name] = s
	if m.sick != nil {
		s.e.mail.event(*m.sick)
	}
	m.fill()
	m.publish(s)
	return m.started, nil
}

// Remove removes a role: its term ends, its work stops, its record is released. It returns when that is done, or ErrStopTimeout when
// ctx is done first: the record is then left to expire, and the role goes when its work has stopped. Called from
// a callback of that role, it returns at once, and the rest follows. Other errors are ErrUnknownRole, ErrDemoteTimeout, and
// that of [Election].Err if the role's election had ended by itself; the role is removed all the same.
func (m *RoleManager) Remove(ctx context.Context, name string) error {
	m.mu.Lock()
	s := m.seats[name]
	m.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w: %q", ErrUnknownRole, name)
	}
	return m.remove(ctx, s)
}

func (m *RoleManager) remove(ctx context.Context, s *seat) error {
	m.forgetLater(s)
	err := s.e.StopWithContext(ctx, StopOptions{DeleteKey: true, WaitForDemote: true})
	if s.e.over() {
		m.forget(s) // so that a role of this name can be added when Remove has returned
	}
	return err
}

// forgetLater forgets the role when its election has ended.
func (m *RoleManager) forgetLater(s *seat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.going || m.stopped {
		return // then the manager waits for all elections anyway
	}
	s.going = true
	m.tasks.Go(func() {
		<-s.e.done
		for !m.guard("forgetting a role", func() { m.forget(s) }) && sleep(m.io, m.cfg.Election.HeartbeatInterval) {
		}
	})
}

// forget removes a role whose election has ended.
func (m *RoleManager) forget(s *seat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seats[s.name] != s {
		return
	}
	m.settle(s, vacant)
	m.unlist(s)
	if s.shown.state != machine.Ended { // it never ran
		m.publish(s)
	}
	delete(m.seats, s.name)
	s.end()
	m.nudge()
}

// Election returns the election of a role, or nil if there is no such role. Its Start and Stop are better left to the manager:
// a role that was stopped by itself stays, stopped, until it is removed. So does one whose election has ended by itself
// ([Election].Err); others may take its room, and it can be removed and added anew.
func (m *RoleManager) Election(name string) Election {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.seats[name]; s != nil {
		return s.e
	}
	return nil
}

// Stop stops all roles at the same time, each as [Election.Stop] does. It returns when all that is done, and may be called
// repeatedly. Called from a callback of any role, it returns at once, and the rest follows. The error matches
// ErrDemoteTimeout if a callback outlived DemoteTimeout, and ErrPanicked or ErrConnectionClosed if a role's election had
// ended by itself.
func (m *RoleManager) Stop() error {
	return m.StopWithContext(context.Background(), StopOptions{DeleteKey: m.cfg.Election.DeleteOnStop, WaitForDemote: true})
}

// StopWithContext is Stop with options: see [Election.StopWithContext].
func (m *RoleManager) StopWithContext(ctx context.Context, opts StopOptions) error {
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
	for _, s := range seats {
		err := s.e.StopWithContext(ctx, opts)
		errs[ErrStopTimeout] = errs[ErrStopTimeout] || errors.Is(err, ErrStopTimeout)
		errs[ErrDemoteTimeout] = errs[ErrDemoteTimeout] || errors.Is(err, ErrDemoteTimeout)
		if ended := s.e.ended(); broken == nil && err != nil && ended != nil {
			broken = fmt.Errorf("role %q: %w", s.name, ended) // the first: each has been reported
		}
	}
	switch {
	case errs[ErrStopTimeout]:
		return errors.Join(fmt.Errorf("%w: %w", ErrStopTimeout, ctx.Err()), broken)
	case errs[ErrDemoteTimeout]:
		if broken != nil {
			return errors.Join(ErrDemoteTimeout, broken)
		}
		return ErrDemoteTimeout
	case broken != nil:
		return broken
	}
	return m.awaitEnd(ctx, opts.WaitForDemote)
}

// inside tells whether the caller is a callback or a hook.
func (m *RoleManager) inside(seats []*seat) bool {
	return m.doctor != nil && m.doctor.loop.inside() ||
		slices.ContainsFunc(seats, func(s *seat) bool { return s.e.inside() })
}

// awaitEnd waits for what is left when no election is, if that is wanted.
func (m *RoleManager) awaitEnd(ctx context.Context, wanted bool) error {
	if !wanted {
		return nil
	}
	select {
	case <-m.done:
		return m.Err()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrStopTimeout, ctx.Err())
	}
}

// askStop tells all elections to stop, before anybody waits for one of them.
func (m *RoleManager) askStop(release bool) []*seat {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	seats := m.allSeats()
	for _, s := range seats {
		s.e.askStop(release)
	}
	m.quits.Do(func() {
		close(m.quit)
		m.endUnstarted()
	})
	return seats
}

// endUnstarted ends a manager that has no goroutine of its own.
func (m *RoleManager) endUnstarted() {
	m.mu.Lock()
	started := m.started
	m.mu.Unlock()
	if !started {
		m.end()
	}
}

// run is the manager's goroutine. It spreads roles, and ends what the manager began.
func (m *RoleManager) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop, sickness := ctx.Done(), m.sickness()
	if m.doctor != nil {
		m.doctor.loop.goid.Store(goid.Current()) // its hooks are called from here
	}
	defer m.followConn()()
	for {
		faults.Point("roles: turn")
		select {
		case <-m.wake:
		case <-m.shut:
			m.guard("a closed store", m.breakOff)
		case <-timer.C:
		case <-sickness:
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
func (m *RoleManager) turn(now time.Time) time.Duration {
	again := idle
	heard := m.doctor == nil || m.guard("health", m.heedDoctor)
	looked := m.guard("spreading", func() { again = m.look(now) })
	if !heard || !looked {
		again = min(again, m.cfg.Election.HeartbeatInterval)
	}
	return again
}

// stopAll stops all roles since the manager's context has ended, and reports
// whether that was done. After a panic it rests first.
func (m *RoleManager) stopAll() bool {
	if m.guard("stop", func() { m.askStop(m.cfg.Election.DeleteOnStop) }) {
		return true
	}
	sleep(context.Background(), m.cfg.Election.HeartbeatInterval)
	return false
}

// end returns when no role is left, and nothing that the manager began.
func (m *RoleManager) end() {
	select {
	case <-m.done:
		return // a predecessor of this goroutine came as far as that
	default:
	}
	m.endHealth()
	for _, s := range m.allSeats() {
		<-s.e.done
	}
	defer close(m.done)
	m.abort()
	m.tasks.Wait()
	if m.dispose != nil {
		m.close()
	}
	for _, s := range m.allSeats() {
		s.end()
	}
}

// sickness is where the doctor leaves word; nil without one.
func (m *RoleManager) sickness() <-chan struct{} {
	if m.doctor == nil {
		return nil
	}
	return m.doctor.mail.wake
}

// heedDoctor passes on to all roles whether the instance is fit to lead.
func (m *RoleManager) heedDoctor() {
	letters, _, _ := m.doctor.mail.take()
	for _, letter := range letters {
		if letter.note != nil {
			m.doctor.report(*letter.note)
			continue
		}
		m.diagnose(letter.ev)
	}
}

func (m *RoleManager) diagnose(ev machine.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sick = nil
	if ev.Kind == machine.Bar {
		m.sick = &ev
	}
	for _, s := range m.seats {
		if !s.e.over() { // nobody would read it
			s.e.mail.event(ev)
		}
	}
}

// followConn has the manager hear of it when the store is closed for good, until
// stop is called.
func (m *RoleManager) followConn() (stop func()) {
	end := func() {}
	m.guard("connection", func() { end = whenClosed(m.store, m.hearClosed) })
	return func() { m.guard("connection", end) }
}

// hearClosed takes in that the store is closed for good. It does not block.
func (m *RoleManager) hearClosed() {
	select {
	case m.shut <- struct{}{}:
	default:
	}
}

func (m *RoleManager) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// allSeats returns the roles in the order of their names.
func (m *RoleManager) allSeats() []*seat {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sorted()
}

// sorted is allSeats with m.mu held.
func (m *RoleManager) sorted() []*seat {
	seats := make([]*seat, 0, len(m.seats))
	for _, s := range m.seats {
		seats = append(seats, s)
	}
	slices.SortFunc(seats, func(a, b *seat) int { return strings.Compare(a.name, b.name) })
	return seats
}
