package leader

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// Errors of a Control, for errors.Is.
var (
	// ErrNoLeader: there was no leader to ask, or nobody took over before the
	// context ended.
	ErrNoLeader = errors.New("leader: nobody leads")
	// ErrTermOver: the term that a request names ended otherwise: before the
	// request, or for another reason.
	ErrTermOver = errors.New("leader: the term is over, and not by this request")
	// ErrNotSuccessor: the leader handed over as it was asked to, but another
	// candidate than the successor took over.
	ErrNotSuccessor = errors.New("leader: another candidate than the successor leads")
)

// A Control puts requests of operators to the leaders of groups, for programs
// that do not take part in the elections: step down, hand over, pause, resume, and
// drain an instance.
// The control record of each group contains the requests. It is beside the
// record of the leader, which nobody but the leader writes. A user that may
// write the control record may ask: see the permissions in docs/operate/permissions.md.
// An error of a missing permission matches store.ErrPermanent and names it.
//
// The leader copies the name of the requester and the reason into the vacancy
// that it leaves. So they reach every candidate and observer (LeaderInfo.By and
// Why), their logs and hooks.
//
// A zero Control is of no use: see [NewControl]. The methods may be called
// concurrently, also by several programs: each change is a compare-and-swap
// that keeps what others asked for. Of two requests to one leader the later
// takes the place of one that is not obeyed yet.
type Control struct {
	st      store.Store
	by      string
	dispose func()
}

// NewControl returns a Control of the groups in a NATS key-value bucket. by
// names the requester, for people: 1 to 256 bytes of printable text. The
// connection stays the caller's. For a bucket in a JetStream domain use
// [NewControlWithStore].
func NewControl(nc *nats.Conn, bucket, by string) (*Control, error) {
	st, release, err := borrowed(nc, bucket)
	if err != nil {
		return nil, err
	}
	c, err := NewControlWithStore(st, by)
	if err != nil {
		release()
		return nil, err
	}
	c.dispose = release
	runtime.AddCleanup(c, func(release func()) { release() }, release) // for programs that forget Close
	return c, nil
}

// NewControlWithStore returns a Control of the groups in a store, which is not
// closed by it.
func NewControlWithStore(st store.Store, by string) (*Control, error) {
	v := &validator{}
	v.check(st != nil, "store", nil, "is required")
	v.check(by != "" && validID(by), "by", by, "must be 1 to 256 bytes of printable UTF-8")
	if err := v.err(); err != nil {
		return nil, err
	}
	return &Control{st: st, by: by, dispose: func() {}}, nil
}

// Close frees what the Control holds. Call it when no other call is under way.
func (c *Control) Close() { c.dispose() }

// An Operation is what a Request asks for.
type Operation string

// The operations.
const (
	// OpStepDown asks the leader to stop its work and release. The leader then
	// stays back until another has led or TTL × (1 + ClockDrift) has passed.
	OpStepDown Operation = record.OpStepDown
	// OpTransfer is OpStepDown with a successor, to which the other candidates
	// give a head start.
	OpTransfer Operation = record.OpTransfer
	// OpPause keeps every candidate of the group from leading until OpResume,
	// including those that start later and after a restart of everything.
	OpPause Operation = "pause"
	// OpResume ends a pause.
	OpResume Operation = "resume"
)

// A Request is what an operator asks of a group.
type Request struct {
	// Op is the request, and Group its addressee.
	Op    Operation
	Group string
	// Term is the number of the term that OpStepDown and OpTransfer are meant
	// for: later terms ignore the request, so that it cannot depose a leader
	// that the caller has never seen. 0 means the present term when the request
	// is made.
	Term uint64
	// Successor is the InstanceID of the candidate to hand over to, for
	// OpTransfer.
	Successor string
	// By names the requester. Default: the name that the Control was made with.
	By string
	// Why is for people: at most 512 bytes of UTF-8 without control characters.
	Why string
}

func (r Request) validate() error {
	v := &validator{}
	ElectionConfig{Group: r.Group, InstanceID: "-"}.validateNames(v)
	asks := r.Op == OpStepDown || r.Op == OpTransfer
	v.check(asks || r.Op == OpPause || r.Op == OpResume, "Op", string(r.Op), "must be step-down, transfer, pause or resume")
	v.check(asks || r.Term == 0, "Term", r.Term, "is for step-down and transfer only")
	v.check(r.Op != OpTransfer || r.Successor != "", "Successor", r.Successor, "is required for transfer")
	v.check(r.Op == OpTransfer || r.Successor == "", "Successor", r.Successor, "is for transfer only")
	v.check(validID(r.Successor), "Successor", r.Successor, "must be at most 256 bytes of printable UTF-8")
	v.check(validID(r.By), "By", r.By, "must be at most 256 bytes of printable UTF-8")
	v.check(controlrecord.ValidWhy(r.Why), "Why", tooLong(r.Why), controlrecord.WhyRule)
	return v.err()
}

// change is what the request does to the control record.
func (r Request) change(c *record.Control) {
	switch r.Op {
	case OpPause:
		controlrecord.Pause(r.By, r.Why)(c)
	case OpResume:
		controlrecord.Resume(c)
	default:
		c.Request = record.Request{Op: string(r.Op), Term: r.Term, Successor: r.Successor, By: r.By, Reason: r.Why}
	}
}

// StepDown is Ask with OpStepDown, of the present leader.
func (c *Control) StepDown(ctx context.Context, group, why string) (Handover, error) {
	return c.Ask(ctx, Request{Op: OpStepDown, Group: group, Why: why})
}

// Transfer is Ask with OpTransfer, of the present leader.
func (c *Control) Transfer(ctx context.Context, group, successor, why string) (Handover, error) {
	return c.Ask(ctx, Request{Op: OpTransfer, Group: group, Successor: successor, Why: why})
}

// Pause is Ask with OpPause. A group that is paused already keeps the name and
// reason of its first pause.
func (c *Control) Pause(ctx context.Context, group, why string) (Handover, error) {
	return c.Ask(ctx, Request{Op: OpPause, Group: group, Why: why})
}

// Resume is Ask with OpResume.
func (c *Control) Resume(ctx context.Context, group string) (Handover, error) {
	return c.Ask(ctx, Request{Op: OpResume, Group: group})
}

// File makes the request and returns when it is stored, without waiting for its
// effect. It returns the request as it was made, with the term that it names.
// If that is given, nothing but the control record is read.
//
// Errors are ErrInvalidConfig, ErrNoLeader, and the errors of the store: an
// error that matches store.ErrUnknown means that the request may have been
// made. Failures that may pass are tried again until ctx is done.
func (c *Control) File(ctx context.Context, r Request) (Request, error) {
	r, err := c.signed(r)
	if err == nil && r.anyTerm() {
		var info LeaderInfo
		if info, err = c.seen(ctx, r.Group); err == nil {
			r, err = r.naming(info)
		}
	}
	if err != nil {
		return r, err
	}
	return r, controlrecord.Change(ctx, c.st, r.Group, r.change)
}

// signed fills in who asks, and validates a request.
func (c *Control) signed(r Request) (Request, error) {
	if r.By == "" {
		r.By = c.by
	}
	return r, r.validate()
}

// anyTerm reports whether the request asks the present leader, whatever its
// term.
func (r Request) anyTerm() bool { return r.Term == 0 && (r.Op == OpStepDown || r.Op == OpTransfer) }

// naming returns the request with the term of the present leader, unless it
// names a term already.
func (r Request) naming(info LeaderInfo) (Request, error) {
	switch {
	case !r.anyTerm():
		return r, nil
	case info.ID == "":
		return r, fmt.Errorf("%w: nobody to ask in group %q: %s", ErrNoLeader, r.Group, describe(info))
	case info.ID == r.Successor:
		return r, leadsAlready(r)
	}
	r.Term = info.Term
	return r, nil
}

func leadsAlready(r Request) error {
	return fmt.Errorf("%w: %w", ErrInvalidConfig, &ConfigError{Field: "Successor", Value: r.Successor, Rule: "leads already"})
}

// A ControlState is what is asked of a group at present, and who leads it.
type ControlState struct {
	// Group is the group's name.
	Group string
	// Leader is who holds the record, or why nobody does. A record does not
	// show its age: the record of a leader which has just died reads like any
	// other, and Until is counted from now.
	Leader LeaderInfo
	// Revision is the revision of the group's record, 0 if the store has none.
	Revision uint64
	// Lease is how long others leave the record alone from its arrival, 0 if
	// nobody holds it or if it does not contain a lease.
	Lease time.Duration
	// Vacant reports that the record is a vacancy, which candidates claim at
	// once.
	Vacant bool
	// Paused reports that the group is paused, PausedBy and PausedWhy by which
	// operator and for what reason.
	Paused    bool
	PausedBy  string
	PausedWhy string
	// Pending is the request that the present leader has been asked and has not
	// obeyed yet; its Op is empty if there is none.
	Pending Request
}

// State returns what is asked of a group and who leads it, by two reads, which
// may come from a replica that lags.
func (c *Control) State(ctx context.Context, group string) (ControlState, error) {
	v := &validator{}
	ElectionConfig{Group: group, InstanceID: "-"}.validateNames(v)
	if err := v.err(); err != nil {
		return ControlState{Group: group}, err
	}
	s := ControlState{Group: group}
	held, err := c.get(ctx, group)
	if err != nil {
		return s, err
	}
	info, seen := leadership.Of(group, held, time.Now())
	entry, err := c.get(ctx, record.ControlKey(group))
	if err != nil {
		return s, err
	}
	s.Leader, s.Revision = infoOf(info), held.Revision
	s.Lease, s.Vacant = leadership.Lease(record.Read(held)), seen.Kind == machine.Vacant
	asked := controlrecord.Read(entry)
	if p := asked.Paused; p != nil {
		s.Paused, s.PausedBy, s.PausedWhy = true, p.By, p.Reason
	}
	if q := asked.Request; q.Op != "" && info.ID != "" && q.Term == info.Term {
		s.Pending = Request{Op: Operation(q.Op), Group: group, Term: q.Term, Successor: q.Successor, By: q.By, Why: q.Reason}
	}
	return s, nil
}

// seen reads who leads a group.
func (c *Control) seen(ctx context.Context, group string) (LeaderInfo, error) {
	entry, err := c.get(ctx, group)
	if err != nil {
		return LeaderInfo{Group: group}, err
	}
	info, _ := leadership.Of(group, entry, time.Now())
	return infoOf(info), nil
}

// get reads until an answer comes, a failure is permanent, or ctx is done.
func (c *Control) get(ctx context.Context, key string) (store.Entry, error) {
	for attempt := 1; ; attempt++ {
		entry, err := c.tryGet(ctx, key)
		if err == nil || store.Classify(err) == store.Permanent {
			return entry, err
		}
		if !backoff.Sleep(ctx, controlrecord.Pace.After(attempt)) {
			return entry, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

func (c *Control) tryGet(ctx context.Context, key string) (store.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, controlrecord.Timeout)
	defer cancel()
	return c.st.Get(ctx, key)
}

// describe describes in words who leads or why nobody does.
func describe(info LeaderInfo) string {
	if info.ID != "" {
		return fmt.Sprintf("%q leads, term %d", info.ID, info.Term)
	}
	return "vacant: " + info.info().Vacancy()
}
