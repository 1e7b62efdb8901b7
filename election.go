package leader

import (
	"context"
	"iter"
	"time"

	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// An Election is one candidate in one election. All methods may be called
// concurrently and, unless documented otherwise, from within callbacks.
type Election interface {
	// Start begins to take part, in the background. It checks the store first:
	// it returns what makes an election impossible or unsafe there (a missing
	// bucket, a permission, no JetStream), with the remedy in the text, and may
	// be called again. A store that cannot be reached is not an error: the
	// election waits for it, and logs that. Start blocks for no longer than
	// this check, at most the larger of ConnectionTimeout and 2 seconds. When
	// ctx is done, also after Start has returned, the election stops as by
	// Stop.
	//
	// Other errors are ErrAlreadyStarted, ErrStopped and the error of a ctx
	// that is done already.
	Start(ctx context.Context) error

	// Stop stops taking part: the term's context is cancelled, OnDemote runs to
	// its end, and then, with DeleteOnStop, the record is released. It returns
	// when all that is done, and may be called repeatedly. Called from a
	// callback, it returns at once, and the rest follows when the callback has
	// returned. The error is ErrDemoteTimeout if a callback outlived
	// DemoteTimeout, and matches the error of Err if the election has ended by
	// itself.
	Stop() error

	// StopWithContext is Stop with options. It gives up waiting when ctx is
	// done or opts.Timeout has passed, and returns ErrStopTimeout; when no other
	// call waits either, the record then expires by itself. Of several calls
	// the first decides whether the record is released.
	StopWithContext(ctx context.Context, opts StopOptions) error

	// Done returns a channel that is closed when the election has ended
	// permanently: after Stop, when the context of Start has ended, or by
	// itself, with all that follows. Err then returns which.
	Done() <-chan struct{}

	// Err returns nil while the election runs, and after a stop that was asked
	// for. Otherwise it returns why the election ended by itself:
	// ErrConnectionClosed or ErrPanicked. Such an election is not started
	// again; the program makes another one, or ends.
	Err() error

	// IsLeader reports whether this candidate leads at this instant: whether
	// its trust window is open, on the monotonic and on the wall clock. It
	// neither blocks nor allocates. The answer is about the past as soon as it
	// is given: see the package documentation.
	IsLeader() bool

	// LeaderID returns who leads as far as this candidate knows, or "".
	LeaderID() string

	// Token returns the token of the present term, or "" if this candidate does
	// not lead.
	Token() string

	// Term returns the present term, or the zero Term if this candidate does
	// not lead.
	Term() Term

	// TrustUntil returns the end of the trust window, or the zero time if this
	// candidate does not lead. Compare it on the monotonic clock, as time.Until
	// does. It accounts for a suspension and for a wall clock that was set
	// forward, which shorten the window.
	TrustUntil() time.Time

	// Status returns what this candidate knows.
	Status() ElectionStatus

	// OnPromote registers a callback for the beginning of each term. ctx ends
	// with the term at the latest, its cause is a *LossError, and
	// TermFromContext finds the term in it. The callback may last as long as
	// the term; OnDemote waits for it to return. After a suspension of the
	// machine ctx.Err and IsLeader are right at once; ctx.Done closes, and
	// contexts derived from ctx end, at once on Linux and within 250 ms
	// elsewhere: see Suspension in the package documentation. A panic in it is
	// reported and ends the term. Of this and of the following kinds several
	// may be registered, which are called in their order; nil is none. Register
	// before Start: later ones are refused, which the Logger hears at level
	// WARN.
	OnPromote(func(ctx context.Context, token string))

	// OnTerm is OnPromote for a callback that is given the whole Term, whose
	// number a protected resource needs. Both kinds are called in the order of
	// their registration.
	OnTerm(func(ctx context.Context, term Term))

	// OnDemote registers a callback for the end of each term that OnPromote was
	// called for. The record is released only when it has returned or
	// DemoteTimeout has passed. Register before Start.
	OnDemote(func())

	// OnLeaderChange registers a callback for every change of who leads, as
	// this candidate sees it. News (this and OnCampaign) are delivered one at a
	// time and in order, by a goroutine of their own: they run beside OnPromote
	// and OnDemote, and neither waits for the other. A callback that lags by
	// more than 16 changes skips to the latest. Register before Start.
	OnLeaderChange(func(LeaderInfo))

	// OnCampaign registers a callback for each time that this candidate begins
	// to campaign: it has found nobody to lead, for the reason given, and is
	// about to claim the record. It is delivered as OnLeaderChange is, and
	// skips to the latest in the same way. Register before Start.
	OnCampaign(func(Reason))

	// Observe yields who leads, as this candidate sees it: the current state
	// first, then each change, until ctx is done or the election has ended (see
	// Done and Err). A slow reader skips states.
	Observe(ctx context.Context) iter.Seq[LeaderInfo]

	// ValidateToken proves that this candidate led at some instant during the
	// call: it renews the lease by compare-and-swap and waits for the store's
	// answer. A read could not prove it, since reads may come from a replica
	// that lags. The error matches ErrNotLeader if the term is over, ctx.Err()
	// if no answer came in time, and store.ErrPermanent, with the remedy in its
	// text, if the store cannot be written until somebody repairs it (a bucket
	// that was deleted, a permission).
	ValidateToken(ctx context.Context) error

	// Do runs a critical operation: it validates the token as configured in
	// FencingConfig and calls op with a context that ends with the term and
	// carries it (TermFromContext). It returns an error that matches
	// ErrNotLeader, without calling op, if this candidate does not lead.
	Do(ctx context.Context, op func(ctx context.Context) error) error

	// Resign ends the current term: the work stops, the record is released, and
	// this candidate stays back until another has led or TTL × (1 + ClockDrift)
	// has passed. It returns when another holds the record, the release is
	// written or given up, or ctx is done (the resignation goes on then);
	// called from a callback, at once. The error is ErrNotLeader if there is
	// nothing to resign, and matches the error of Err if the election ends by
	// itself meanwhile, and store.ErrPermanent if the release cannot be written
	// until somebody repairs the store: the record is then left to expire.
	Resign(ctx context.Context) error

	// Transfer is Resign with a successor: the vacancy names it, and the other
	// candidates give it a head start of TTL/2, at most 2 seconds. The leader
	// cannot know whether the successor is there, and fit to lead. If it is
	// not, the group loses the head start; without a third candidate it loses
	// the whole time for which this one stays back.
	Transfer(ctx context.Context, instanceID string) error

	// Pause keeps every candidate of the group from leading until Resume, also
	// those that start later: the leader stops its work and releases. It
	// returns when the request is stored; the leader obeys it as soon as it
	// hears of it. why is for people, at most 512 bytes. It needs the right to
	// write the control record; see [Control] for programs that do not take
	// part.
	Pause(ctx context.Context, why string) error

	// Resume ends a pause.
	Resume(ctx context.Context) error

	// Alive returns nil if the election runs and its goroutine, which renews
	// the lease, answers before ctx is done. It does not depend on the store.
	// Errors are ErrNotStarted, ErrStopped (which matches Err's error, too, if
	// there is one) and ctx.Err(). Like ValidateToken it would wait for itself
	// in a hook.
	Alive(ctx context.Context) error
}

// StopOptions is how to stop.
type StopOptions struct {
	// DeleteKey releases the record after the work stopped, so that another
	// candidate leads at once.
	DeleteKey bool
	// WaitForDemote waits until OnDemote has returned. Without it,
	// StopWithContext returns once this candidate leads no more, and what is
	// left (OnDemote, then the release) is done in the background within
	// DemoteTimeout.
	WaitForDemote bool
	// Timeout bounds the call, in addition to its context. 0: no bound.
	Timeout time.Duration
}

// NewElectionWithStore returns a candidate whose records live in st. Nothing
// happens before Start. Elections may share a store; it is not closed by them.
func NewElectionWithStore(st store.Store, cfg ElectionConfig) (Election, error) {
	e, err := electionWithStore(st, cfg)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// electionWithStore is NewElectionWithStore.
func electionWithStore(st store.Store, cfg ElectionConfig) (e election, err error) {
	if err := cfg.validate(false, "store", st != nil); err != nil {
		return e, err
	}
	return newElection(st, cfg, nil), nil
}

// newElection returns an election with a configuration that was validated.
// dispose, optional, ends what it owns of the store.
func newElection(st store.Store, cfg ElectionConfig, dispose func()) election {
	cfg = cfg.withDefaults()
	c := cfg.engine()
	c.Dispose = dispose
	return electionOf(st, cfg, c)
}

// electionOf returns an election that asks its hooks with itself and cfg.
func electionOf(st store.Store, cfg ElectionConfig, c engine.Config) election {
	var e election
	if cfg.Hooks.PerElection != nil {
		c.PerElection = func(take func(engine.Hooks)) { cfg.Hooks.of(e, cfg, take) }
	}
	e = election{engine.New(st, c)}
	return e
}

// An election is a candidate of the engine in the words of this package.
type election struct{ c *engine.Candidate }

var _ Election = election{}

func (e election) Start(ctx context.Context) error { return e.c.Start(ctx) }

func (e election) Stop() error {
	return e.StopWithContext(context.Background(), StopOptions{DeleteKey: e.c.DeletesOnStop(), WaitForDemote: true})
}

func (e election) StopWithContext(ctx context.Context, opts StopOptions) error {
	return e.c.Stop(ctx, engine.StopOptions(opts))
}

func (e election) Done() <-chan struct{} { return e.c.Done() }

func (e election) Err() error { return e.c.Err() }

func (e election) IsLeader() bool { return e.c.IsLeader() }

func (e election) LeaderID() string { return e.c.Leader().ID }

func (e election) Token() string { return e.c.Term().Token }

func (e election) Term() Term { return Term(e.c.Term()) }

func (e election) TrustUntil() time.Time { return e.c.TrustUntil() }

func (e election) Status() ElectionStatus { return statusOf(e.c.Status()) }

func (e election) OnPromote(f func(ctx context.Context, token string)) {
	if f != nil {
		e.c.OnTerm(func(ctx context.Context, term leadership.Term) { f(ctx, term.Token) })
	}
}

func (e election) OnTerm(f func(ctx context.Context, term Term)) {
	if f != nil {
		e.c.OnTerm(func(ctx context.Context, term leadership.Term) { f(ctx, Term(term)) })
	}
}

func (e election) OnDemote(f func()) {
	if f != nil {
		e.c.OnDemote(f)
	}
}

func (e election) OnLeaderChange(f func(LeaderInfo)) {
	if f != nil {
		e.c.OnLeaderChange(func(info leadership.Info) { f(infoOf(info)) })
	}
}

func (e election) OnCampaign(f func(Reason)) {
	if f != nil {
		e.c.OnCampaign(func(r machine.Reason) { f(Reason(r)) })
	}
}

func (e election) Observe(ctx context.Context) iter.Seq[LeaderInfo] {
	return func(yield func(LeaderInfo) bool) {
		for info := range e.c.Observe(ctx) {
			if !yield(infoOf(info)) {
				return
			}
		}
	}
}

func (e election) ValidateToken(ctx context.Context) error { return e.c.ValidateToken(ctx) }

func (e election) Do(ctx context.Context, op func(ctx context.Context) error) error {
	return e.c.Do(ctx, op)
}

func (e election) Resign(ctx context.Context) error { return e.c.Resign(ctx, "") }

func (e election) Transfer(ctx context.Context, instanceID string) error {
	if instanceID == "" || instanceID == e.c.ID() || !validID(instanceID) {
		return &ConfigError{Field: "instanceID", Value: instanceID, Rule: "must be the InstanceID of another candidate"}
	}
	return e.c.Resign(ctx, instanceID)
}

func (e election) Pause(ctx context.Context, why string) error {
	if !controlrecord.ValidWhy(why) {
		return &ConfigError{Field: "why", Value: tooLong(why), Rule: controlrecord.WhyRule}
	}
	return e.c.Pause(ctx, why)
}

func (e election) Resume(ctx context.Context) error { return e.c.Resume(ctx) }

func (e election) Alive(ctx context.Context) error { return e.c.Alive(ctx) }
