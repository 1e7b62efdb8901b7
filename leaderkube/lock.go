package leaderkube

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// Errors of a Lock, for errors.Is.
var (
	// ErrNotHeld: the election does not lead, or its trust window is too short
	// for what client-go does with it. It matches leader.ErrNotLeader.
	ErrNotHeld error = notHeldError("the lock is not held")
	// ErrTiming: client-go's loop has another Timing than the Lock was made
	// for.
	ErrTiming = errors.New("the loop has another timing than its lock")
	// ErrClosed: the Lock was closed.
	ErrClosed = errors.New("the lock is closed")
)

type notHeldError string

func (e notHeldError) Error() string      { return "leaderkube: " + string(e) }
func (notHeldError) Is(target error) bool { return target == leader.ErrNotLeader }

// Options are the settings of a Lock in addition to its election. The zero
// Options suit a loop that has client-go's defaults.
type Options struct {
	// Timing is what client-go's loop is given. Zero: [DefaultTiming], which
	// wants a TTL of about 16 s or more. Give the loop the same.
	Timing Timing
}

// A Lock is an election as client-go sees one: a resourcelock.Interface, if
// Record is client-go's resourcelock.LeaderElectionRecord. It is for one loop
// at a time; another one may follow. All methods may be called concurrently.
type Lock[Record any] struct{ core *core }

// New returns a lock whose record lives in a NATS bucket, like the record of
// leader.NewElection. Nothing happens before a loop of client-go asks for it.
// The error matches leader.ErrInvalidConfig and names every fault.
func New[Record any](nc *nats.Conn, cfg leader.ElectionConfig, opts Options) (*Lock[Record], error) {
	return build[Record](func() (leader.Election, error) { return leader.NewElection(nc, cfg) }, cfg, opts)
}

// NewWithStore is New with the record in st.
func NewWithStore[Record any](st store.Store, cfg leader.ElectionConfig, opts Options) (*Lock[Record], error) {
	return build[Record](func() (leader.Election, error) { return leader.NewElectionWithStore(st, cfg) }, cfg, opts)
}

func build[Record any](stand func() (leader.Election, error), cfg leader.ElectionConfig, opts Options) (*Lock[Record], error) {
	if opts.Timing == (Timing{}) {
		opts.Timing = DefaultTiming()
	}
	first, err := stand()
	if err := errors.Join(err, opts.Timing.check(cfg, err == nil), checkRecord[Record]()); err != nil {
		return nil, fmt.Errorf("leaderkube: %w", err)
	}
	return &Lock[Record]{&core{cfg: cfg, timing: opts.Timing, stand: stand, first: first, bound: map[*binding]struct{}{}, runs: map[*binding]struct{}{}}}, nil
}

// Get shows client-go who holds the lock, and starts a campaign if this lock
// has none yet. It names this candidate as the holder only while the trust
// window stays open for longer than client-go may work on without asking.
//
// Until we hold it, Get waits for news: it returns when we do, when another
// leads than it showed the last time, and when ctx is done. So client-go hears
// of its promotion at once, and not after a RetryPeriod. The campaign ends with
// ctx, unless client-go was given the lock.
func (l *Lock[Record]) Get(ctx context.Context) (*Record, []byte, error) {
	r, err := l.core.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	out, raw, err := into[Record](r)
	if err != nil {
		return nil, nil, err
	}
	// client-go judges a lease by the time at which these bytes last changed.
	// The lock has judged the lease already, so every answer differs from the
	// last.
	return out, strconv.AppendUint(append(raw, ' '), l.core.asked.Add(1), 10), nil
}

// Create is Update. client-go never calls it, since Get always finds a record.
func (l *Lock[Record]) Create(ctx context.Context, r Record) error { return l.Update(ctx, r) }

// Update gives client-go the lock, or confirms that it holds it; the record in
// the store is renewed by the election alone. The error matches ErrNotHeld if
// the trust window is closed, or is about to, and ErrTiming. A record without a
// holder releases: Update then waits until the record is written, or ctx is
// done.
func (l *Lock[Record]) Update(ctx context.Context, r Record) error {
	in, err := from(r)
	if err != nil {
		return err
	}
	return l.core.update(ctx, in)
}

// RecordEvent receives client-go's notice that its loop has ended.
func (l *Lock[Record]) RecordEvent(event string) { l.core.event(event) }

// Identity is leader.ElectionConfig.InstanceID.
func (l *Lock[Record]) Identity() string { return l.core.cfg.InstanceID }

// Describe names the bucket, if there is one, and the group.
func (l *Lock[Record]) Describe() string {
	if l.core.cfg.Bucket == "" {
		return l.core.cfg.Group
	}
	return l.core.cfg.Bucket + "/" + l.core.cfg.Group
}

// Timing is what the loop has to be given.
func (l *Lock[Record]) Timing() Timing { return l.core.timing }

// IsLeader reports whether client-go holds the lock at this instant, by the
// trust window. The method of this name of client-go's LeaderElector compares
// names, and may return true long after.
func (l *Lock[Record]) IsLeader() bool { _, ok := l.core.held(); return ok }

// Term is the present term, or the zero Term if client-go does not hold the
// lock. Its number is the fencing token.
func (l *Lock[Record]) Term() leader.Term { term, _ := l.core.held(); return term }

// Status returns the status of the election, or the zero status while there is
// no campaign.
func (l *Lock[Record]) Status() leader.ElectionStatus { return l.core.status() }

// Context returns a copy of parent that ends when client-go loses the lock, as
// soon as the election knows: with the trust window at the latest, and right
// after a suspension. Its cause is then the *leader.LossError. Give it to
// RunOrDie or LeaderElector.Run, whose loop notices only at its next question
// otherwise, and works on for a RenewDeadline. A manager of controller-runtime
// wants [Lock.Run].
//
// A context that was made while client-go holds the lock ends with that term,
// and one that was made before ends with the next. It holds memory until it or
// parent ends, or the Lock is closed.
func (l *Lock[Record]) Context(parent context.Context) context.Context {
	return l.core.bind(parent, &binding{})
}

// Run calls start, which is the Start of controller-runtime's manager, with a
// context as of [Lock.Context], and returns what it returns.
//
// When a term is lost, a manager lets its reconciliations end, for up to
// GracefulShutdownTimeout, while its loop gives up after a RenewDeadline. So
// the release of a record waits until start has returned, too, or
// leader.ElectionConfig.DemoteTimeout has passed. It does not wait where the
// loop releases by itself (ReleaseOnCancel): a manager that is shut down has
// the loop do so after its work.
func (l *Lock[Record]) Run(ctx context.Context, start func(context.Context) error) error {
	return l.core.run(ctx, start)
}

// Leading returns work as a callback OnStartedLeading. Its context ends with
// client-go's and with the term, whichever is first, and carries the term
// (leader.TermFromContext). The record is released only when work has returned,
// or leader.ElectionConfig.DemoteTimeout has passed, which client-go by itself
// does not wait for. work is not called if the term is over already. A panic in
// it is client-go's to handle.
func (l *Lock[Record]) Leading(work func(ctx context.Context)) func(context.Context) {
	return func(ctx context.Context) { l.core.work(ctx, work) }
}

// Close ends the campaign and releases the record, if it is still ours; for a
// program whose loop has ended. It waits for functions of Leading and of Run, no
// longer than DemoteTimeout and ctx. Afterwards the lock cannot be had.
func (l *Lock[Record]) Close(ctx context.Context) error { return l.core.close(ctx) }
