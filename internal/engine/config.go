package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A Config describes one candidate. The caller has validated it and has filled
// in the defaults; leader.ElectionConfig documents each setting.
type Config struct {
	Group             string
	InstanceID        string
	TTL               time.Duration
	HeartbeatInterval time.Duration
	ConnectionTimeout time.Duration
	DemoteTimeout     time.Duration
	ClockDrift        float64

	// Settings are the core's. The store's report may shorten ForeignTTL.
	machine.Settings

	Standing  preference.Standing
	MinTenure time.Duration

	// ValidateEvery is how often a leader proves its token in the background, 0
	// for never; ValidateAlways lets Do prove it before each operation.
	ValidateEvery time.Duration

	// Adjacent, they take one word, and a candidate has no room for more: see
	// TestCandidateFillsItsSizeClass.
	ValidateAlways bool
	VersionPolicy  preference.Policy
	AllowTakeover  bool
	Grace          Grace
	DeleteOnStop   bool

	// Check, if not nil, asks the program whether it is fit to lead.
	Check         func(ctx context.Context) bool
	CheckInterval time.Duration
	CheckTimeout  time.Duration
	MaxFailures   int

	Address string
	Params  *record.Params
	Meta    map[string]string

	Logger *slog.Logger // nil: silent
	Hooks  Hooks
	// PerElection, if not nil, is asked once, when the candidate runs and
	// before any hook is called, for the hooks that take the place of Hooks. It
	// may panic after it has given them to take.
	PerElection func(take func(Hooks))
	// Loss returns the cause of the end of a term's context.
	Loss func(leadership.Term, machine.Reason) error
	// Dispose, if not nil, ends what the candidate owns of the store.
	Dispose func()
	// Supervisor, if not nil, can withhold claims of the election.
	Supervisor Supervisor
}

// A Supervisor runs several candidates that depend on one another, as a role
// manager does. The loop of a candidate calls it; it must not block.
type Supervisor interface {
	// Admit receives the state that the candidate is about to enter. It reports
	// whether there is room for a claim, and how long the claim must wait. If
	// it must wait, or there is no room, the supervisor notes nothing; Settle
	// follows with the resulting state.
	Admit(next *machine.State) (wait time.Duration, room bool)
	// Settle receives the candidate's state.
	Settle(next *machine.State)
	// Gives reports whether a role that this instance leads is given to another
	// that leads have of them, and counts it as given if so.
	Gives(have int) bool
	// Asks reports whether there will be room for a role that the candidate is
	// about to ask the leader of a term for, and counts it as asked for if so.
	Asks(term uint64) bool
	// Stepped receives what readers see after a step, and what observers were
	// notified of.
	Stepped(View, leadership.Info)
	// Ended is called when the candidate has ended. closed means that it ended
	// because the store is permanently closed.
	Ended(closed bool)
	// Warns reports whether a warning is to be reported: all roles have the
	// same store, and most have the same rivals.
	Warns(text string) bool
}

// A View is what readers see of a candidate's own part.
type View struct {
	State  machine.Public
	Barred machine.Reason
}

// Grace controls whether a new leader cools down before it is promoted.
type Grace uint8

// The settings of Grace: see leader.AcquireGrace.
const (
	GraceAuto Grace = iota
	GraceOn
	GraceOff
)

// Forever replaces all longer times: an instant so much later still does not
// overflow.
const Forever = 100 * 365 * 24 * time.Hour

// RefusedFor is how long a candidate that may not write the control record
// leaves it alone.
const RefusedFor = 10 * time.Minute

// Protocol returns the protocol with these settings.
func (c *Config) Protocol(coolDown bool) machine.Machine {
	return machine.Machine{
		ID:          c.InstanceID,
		TTL:         c.TTL,
		Heartbeat:   c.HeartbeatInterval,
		Grid:        grid(c.HeartbeatInterval),
		MaxTTL:      leadership.MaxTTL,
		Drift:       c.ClockDrift,
		CoolDown:    coolDown,
		DrainBudget: min(c.DemoteTimeout, Forever),
		// Long enough for a delivery and a write, and short against a lease: a
		// successor that is gone must not cost the group more than an expiry
		// would.
		HeadStart: min(c.TTL/2, 2*time.Second),
		Priority:  c.Standing.Priority,
		// Longer than a handover takes on most networks, and short against the
		// lease even for the last of record.MaxStandings.
		Yield:    min(c.TTL/20, 50*time.Millisecond),
		Settings: c.Settings,
	}
}

// Conditions are the result of the check of the store for an election on it.
type Conditions struct {
	machine.Machine
	// doubt is for how long from the start on somebody may lead by a record
	// that the store does not hold.
	doubt time.Duration
}

func (c *Config) conditions(report store.Report) Conditions {
	auto := c.Grace == GraceAuto
	m := c.Protocol(c.Grace == GraceOn || auto && (report.Forgetful || report.Expires))
	m.Expires = auto && !report.Forgetful
	m.Ages = report.Age > 0 && c.Grace != GraceOff
	m.ForeignTTL = c.foreignTTL(report.MaxAge)
	return Conditions{m, c.doubt(report.Age)}
}

// foreignTTL bounds a lease whose record does not contain its length, 0 if the
// length is unknown: then it counts as TTL, and a warning is logged. A leader
// by a record of another program has to write it again before the store drops
// it.
func (c *Config) foreignTTL(maxAge time.Duration) time.Duration {
	switch {
	case maxAge <= 0:
		return c.ForeignTTL
	case c.ForeignTTL == 0:
		return min(maxAge, leadership.MaxTTL)
	default:
		return min(maxAge, c.ForeignTTL)
	}
}

// doubt is what is left of a lease that a leader may hold from a store of the
// same name that was deleted. That lease was granted before the present store
// was made, and is as long as our own. Only the store's rate enters, which A3
// bounds as it bounds ours, so the wait needs no second margin.
func (c *Config) doubt(age time.Duration) time.Duration {
	if age <= 0 || c.Grace == GraceOff {
		return 0
	}
	return max(machine.Wait(c.TTL, c.ClockDrift)-age, 0)
}
