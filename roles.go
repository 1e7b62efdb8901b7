package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/roles"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Errors of a RoleManager. ErrAlreadyStarted, ErrStopped, ErrStopTimeout and
// ErrDemoteTimeout are also among them.
var (
	// ErrRoleExists: the manager has a role of that name, or one that is still
	// being removed.
	ErrRoleExists = roles.ErrExists
	// ErrUnknownRole: the manager has no role of that name.
	ErrUnknownRole = roles.ErrUnknown
)

// A RoleManagerConfig describes an instance that takes part in the elections of
// many roles.
type RoleManagerConfig struct {
	// Election is what all roles have in common. Its Group stays empty: a
	// role's name is its group.
	//
	// Its Hooks are called for each role, and may be called for different roles
	// at the same time; Hooks.PerElection identifies the role. Its
	// HealthChecker is asked once for all roles. A note about that check, for
	// example of a panic (NotePanic), is reported once: by the first running
	// election by role name, as a note of that role. While no election runs,
	// only Hooks.Note is called.
	Election ElectionConfig
	// MaxRoles is how many roles this instance leads at most, counting the
	// roles whose work is still being stopped and the roles that it is about to
	// lead. At its bound it campaigns for no other role, and their Status shows
	// ReasonFull. It asks to take over (AllowPriorityTakeover) no more roles at
	// a time than it has room for. Roles that no instance has room for stay
	// without a leader, and the manager logs this. 0: no bound.
	MaxRoles int
	// Spread evens out how many roles each instance leads.
	Spread SpreadConfig
}

// A SpreadConfig configures whether and how fast roles are spread evenly over
// the instances that lead them.
//
// An instance that leads fewer roles than another, by two or more, asks for one
// of the other's, which is handed over as by [Election.Transfer]: the work
// stops first. It asks for one at a time, keeps the last room below MaxRoles
// for it for up to a TTL, and is given none that would leave the other with
// fewer than itself. So differences of one stay as they are, and roles never
// move in circles. Where a role falls vacant, an instance that has its fair
// share leaves it to others, until nobody has taken a role for TTL/4, at most
// half a second.
//
// No instance reports its presence for this: each counts by the leaders of the
// roles that it knows itself. Where an instance leaves, each of the others
// takes its fair share of what it led and no more, for as long as the store
// answers within that time. Instances whose roles differ come to rest as well,
// though not with equal numbers: each asks until it leads its share of the
// roles that it knows, or nobody leads two more of these than it leads
// altogether. Give all instances the same roles if the numbers are to be equal.
// A role is never asked of a leader that is preferred for it (by Priority or
// VersionPolicy). Asking needs the right to write the roles' control records.
//
// A panic of the manager's own code ends spreading on this instance, and the
// Logger reports it ("spreading"="ended"). The roles' elections go on.
type SpreadConfig struct {
	// Enabled makes this instance ask for roles and leave vacancies to others.
	// It gives away the roles that others ask for in any case.
	Enabled bool
	// Pace is the share of all roles that this instance asks for in one TTL, at
	// the most. More than 0 and at most 1; default 0.1.
	Pace float64
}

func (c RoleManagerConfig) withDefaults() RoleManagerConfig {
	c.Election = c.Election.withDefaults()
	def(&c.Spread.Pace, 0.1)
	return c
}

// Validate reports every rule that the configuration breaks, as an error that
// matches ErrInvalidConfig, or nil. NewRoleManager calls it, and also requires
// a bucket.
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
	// Name is the role's group, with the rules of ElectionConfig.Group.
	// Required.
	Name string
	// Priority, if not 0, takes the place of
	// RoleManagerConfig.Election.Priority.
	Priority int
	// Meta, if not nil, takes the place of RoleManagerConfig.Election.Meta.
	Meta map[string]string

	// The callbacks have the names of [Election]'s callbacks and are called as
	// described there; nil for none. The callbacks of different roles are
	// called at the same time.
	OnPromote func(ctx context.Context, token string)
	// OnTerm takes the place of OnPromote, and is given the whole term. Only
	// one of them may be set.
	OnTerm         func(ctx context.Context, term Term)
	OnDemote       func()
	OnLeaderChange func(LeaderInfo)
	OnCampaign     func(Reason)
	// Hooks are called in addition to RoleManagerConfig.Election.Hooks.
	Hooks Hooks
}

func (r Role) validate() error {
	var v validator
	v.check(r.OnPromote == nil || r.OnTerm == nil, "OnTerm", "(a function)", "must be nil where OnPromote is set: they are one callback")
	return v.err()
}

// A RoleManager takes part in the elections of many roles: over one connection,
// with one watch for all of them, and one goroutine each. A role is a group
// like any other: a RoleManager and a lone Election may be candidates for it
// together. All methods may be called concurrently and from within callbacks. A
// zero RoleManager is of no use: see [NewRoleManager].
type RoleManager struct {
	cfg   RoleManagerConfig
	store store.Store
	m     *roles.Manager
}

// NewRoleManager returns a manager whose roles live in one NATS JetStream
// key-value bucket, cfg.Election's. Nothing happens before Start. The
// connection stays the caller's.
//
// It watches the whole bucket at once, for which the user needs the right to
// read all of it. For users who may not, and to share a store with other
// elections, there is [NewRoleManagerWithStore].
func NewRoleManager(nc *nats.Conn, cfg RoleManagerConfig) (*RoleManager, error) {
	if err := cfg.validate(true, "connection", nc != nil); err != nil {
		return nil, err
	}
	opts := storeOptions(cfg.Election)
	opts.WatchWholeBucket = true
	st, err := natsstore.New(nc, cfg.Election.Bucket, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return newRoleManager(st, cfg, st.Close), nil
}

// NewRoleManagerWithStore returns a manager whose roles live in st. Nothing
// happens before Start. The store stays the caller's.
func NewRoleManagerWithStore(st store.Store, cfg RoleManagerConfig) (*RoleManager, error) {
	if err := cfg.validate(false, "store", st != nil); err != nil {
		return nil, err
	}
	return newRoleManager(st, cfg, nil), nil
}

func newRoleManager(st store.Store, cfg RoleManagerConfig, dispose func()) *RoleManager {
	cfg = cfg.withDefaults()
	log := storeLogger(cfg.Election)
	own := cfg.Election.engine()
	return &RoleManager{cfg: cfg, store: st, m: roles.New(st, roles.Config{
		InstanceID: own.InstanceID, TTL: own.TTL, HeartbeatInterval: own.HeartbeatInterval, ConnectionTimeout: own.ConnectionTimeout,
		DeleteOnStop: own.DeleteOnStop, MaxRoles: cfg.MaxRoles, Spread: cfg.Spread.Enabled, Pace: cfg.Spread.Pace,
		Log: log.With("instance", own.InstanceID), Dispose: dispose,
		Health: engine.Health{Check: own.Check, Interval: own.CheckInterval, Timeout: own.CheckTimeout, MaxFailures: own.MaxFailures},
		Note:   engine.NoteReporter(log.With("group", "", "instance", own.InstanceID), own.Hooks),
	})}
}

// Done returns a channel that is closed when the manager has ended, and all
// that follows is done: after Stop, when the context of Start has ended, or by
// itself. Err then returns the cause.
func (m *RoleManager) Done() <-chan struct{} { return m.m.Done() }

// Err returns nil while the manager runs, and after a stop that was asked for.
// Otherwise it returns why the manager has ended by itself, with all its roles:
// ErrConnectionClosed.
func (m *RoleManager) Err() error { return m.m.Err() }

// Start begins to take part in the elections of all roles that were added, in
// the background. It checks the store first, as [Election.Start] does. If the
// store needs a repair, for any role, Start returns what has to be repaired,
// starts nothing, and may be called again. Start blocks for as long as the
// store goes on answering. After the larger of ConnectionTimeout and 2 seconds
// without an answer, it leaves the other roles to their elections, which await
// the store. When ctx is done, also later, the manager stops as by Stop. When
// the store's connection is permanently closed, it ends by itself: see Err.
//
// Other errors are ErrAlreadyStarted, at once also while another call of Start
// is under way, ErrStopped, also when Stop cuts the check short, and the error
// of a ctx that is done before Start begins. These are errors of the manager: a
// role whose election was started or stopped by itself before is left as it is.
func (m *RoleManager) Start(ctx context.Context) error { return m.m.Start(ctx) }

// Add adds a role. Before Start that is all. During Start, Add returns at once,
// and Start checks and starts the role with the others. Later it is started at
// once, with the check and the errors of [Election.Start]; it is not added then
// if there is an error. ctx bounds the call and not the role.
//
// Other errors are ErrInvalidConfig, ErrRoleExists and ErrStopped, also when
// Stop cuts the check short.
func (m *RoleManager) Add(ctx context.Context, role Role) error {
	cfg := m.configOf(role)
	if err := errors.Join(role.validate(), cfg.validate(false, "", true)); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	c := cfg.engine()
	var e election
	if cfg.Hooks.PerElection != nil {
		c.PerElection = func(take func(engine.Hooks)) { cfg.Hooks.of(e, cfg, take) }
	}
	return m.m.Add(ctx, roles.Role{Name: role.Name, Config: c, Register: func(candidate *engine.Candidate) {
		e = election{candidate}
		e.OnPromote(role.OnPromote) // nil is none
		e.OnTerm(role.OnTerm)
		e.OnDemote(role.OnDemote)
		e.OnLeaderChange(role.OnLeaderChange)
		e.OnCampaign(role.OnCampaign)
	}})
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

// Remove removes a role: its term ends, its work stops, its record is released.
// It returns when that is done, or ErrStopTimeout when ctx is done first: the
// record is then left to expire, and the role goes when its work has stopped.
// Called from a callback of that role, it returns at once, and the rest
// follows. Other errors are ErrUnknownRole, ErrDemoteTimeout, and the error of
// [Election].Err if the role's election had ended by itself; the role is
// removed all the same, after ErrDemoteTimeout when its work has stopped.
func (m *RoleManager) Remove(ctx context.Context, name string) error { return m.m.Remove(ctx, name) }

// Election returns the election of a role, or nil if there is no such role. Its
// Start and Stop are better left to the manager: a role that was stopped by
// itself stays, stopped, until it is removed. The same holds for a role whose
// election has ended by itself ([Election].Err); others may take its room when
// its work has stopped, and it can be removed and added again.
func (m *RoleManager) Election(name string) Election {
	if c := m.m.Candidate(name); c != nil {
		return election{c}
	}
	return nil
}

// Stop stops all roles at the same time, each as [Election.Stop] does. It
// returns when all that is done, and may be called repeatedly. Called from a
// callback of any role, it returns at once, and the rest follows. The error
// matches ErrDemoteTimeout if a callback outlived DemoteTimeout, and
// ErrPanicked or ErrConnectionClosed if a role's election had ended by itself.
func (m *RoleManager) Stop() error {
	return m.StopWithContext(context.Background(), StopOptions{DeleteKey: m.cfg.Election.DeleteOnStop, WaitForDemote: true})
}

// StopWithContext is Stop with options: see [Election.StopWithContext].
func (m *RoleManager) StopWithContext(ctx context.Context, opts StopOptions) error {
	return m.m.Stop(ctx, engine.StopOptions(opts))
}

// A RoleStatus contains what an instance knew of one role. Its facts about the
// instance and about the leader are looked up one after the other, so a change
// may fall between the two.
type RoleStatus struct {
	// Name is the role's.
	Name string
	// ElectionStatus is the instance's own part: its state, its term, its trust
	// window, what keeps it from campaigning. A removed role is reported a last
	// time, with StateStopped.
	ElectionStatus
	// Leader is who leads the role, this instance included, or why nobody does.
	Leader LeaderInfo
}

func roleStatusOf(s roles.Status) RoleStatus {
	return RoleStatus{Name: s.Name, ElectionStatus: statusOf(s.Own), Leader: infoOf(s.Leader)}
}

// Roles returns what this instance knows of its roles, in the order of their
// names.
func (m *RoleManager) Roles() []RoleStatus {
	known := m.m.Roles()
	all := make([]RoleStatus, len(known))
	for i, s := range known {
		all[i] = roleStatusOf(s)
	}
	return all
}

// Observe yields what this instance knows of its roles: the current state of
// each first, then each change of who leads or of its own part, until ctx is
// done or the manager has stopped. Roles that are added later are among them. A
// slow reader skips states, but gets the last one of every role. Renewals are
// not yielded.
func (m *RoleManager) Observe(ctx context.Context) iter.Seq[RoleStatus] {
	return func(yield func(RoleStatus) bool) {
		for s := range m.m.Observe(ctx) {
			if !yield(roleStatusOf(s)) {
				return
			}
		}
	}
}
