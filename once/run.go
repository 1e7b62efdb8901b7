package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/internal/storepool"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Errors of Run, for errors.Is.
var (
	// ErrPeriodOver: the period ended before this candidate led, and no other
	// candidate has noted the run as far as this one knows.
	ErrPeriodOver = errors.New("once: the period ended before this candidate led")
	// ErrPanicked: work panicked or called runtime.Goexit. The Logger has the
	// value and the stack.
	ErrPanicked = errors.New("once: the work panicked")
)

// Run starts work on NATS if this candidate is the first of cfg.Group in the
// present period of the schedule, and reports whether it did. It returns
//
//   - (true, the error of work) when work has returned and the record is
//     released; a nil error becomes leader.ErrDemoteTimeout if work returned
//     later than cfg.DemoteTimeout after its term
//   - (false, nil) when another candidate has started the run, whatever became
//     of it
//   - (false, ErrPeriodOver) when the period ends before this candidate leads: the
//     group may be paused, or this instance unhealthy
//   - (false, context.Cause(ctx)) when ctx is done. The run may have been noted,
//     if that was under way
//   - (false, another error) when the run cannot be noted ([ErrClockAhead],
//     store.ErrPermanent), and with the errors of leader.Run: broken rules of the
//     arguments match leader.ErrInvalidConfig
//
// The context of work ends with its term and with ctx; work should then return
// soon, and is not started again. A panic of work is reported through the
// Logger, and is ErrPanicked.
//
// The period is determined when Run is called. Call it when a period begins, on
// each host: from a timer, or as cron does; Schedule.At returns when the next
// one begins. cfg.InstanceID must differ between calls that overlap, also on one
// host. Run may be called concurrently.
func Run(
	ctx context.Context, nc *nats.Conn, cfg leader.ElectionConfig, s Schedule, work func(ctx context.Context, term leader.Term) error,
) (ran bool, err error) {
	if err := validate(cfg, s, work); err != nil {
		return false, err
	}
	opts := natsstore.Options{Domain: cfg.JetStreamDomain, Logger: cfg.Logger}
	if cfg.BucketAutoCreate {
		opts.Create = &natsstore.BucketConfig{Replicas: cfg.Replicas, MaxBytes: cfg.BucketMaxBytes}
	}
	st, release, err := storepool.Common.Borrow(nc, cfg.Bucket, opts)
	if err != nil {
		return false, fmt.Errorf("%w: %w", leader.ErrInvalidConfig, err)
	}
	defer release()
	return run(ctx, st, cfg, s, work)
}

// RunWithStore is Run on a store other than NATS. Clocks of hosts are compared
// with the server's clock if the store has the method StoredAt of
// natsstore.Store.
func RunWithStore(
	ctx context.Context, st store.Store, cfg leader.ElectionConfig, s Schedule, work func(ctx context.Context, term leader.Term) error,
) (ran bool, err error) {
	if err := validate(cfg, s, work); err != nil {
		return false, err
	}
	return run(ctx, st, cfg, s, work)
}

// validate reports the broken rules of what leader.Run does not look at, and of
// what it does.
func validate(cfg leader.ElectionConfig, s Schedule, work lead) error {
	errs := []error{s.Validate()}
	if work == nil {
		errs = append(errs, &leader.ConfigError{Field: "work", Rule: "must not be nil"})
	}
	if len(inspect.RanKey(cfg.Group)) > store.MaxKey {
		errs = append(errs, &leader.ConfigError{
			Field: "Group", Value: cfg.Group,
			Rule: fmt.Sprintf("must have at most %d bytes: the key of its runs is longer", store.MaxKey-len(inspect.RanKey(""))),
		})
	}
	return errors.Join(append(errs, cfg.Validate())...)
}

// lead is the function of a term.
type lead = func(ctx context.Context, term leader.Term) error

// timeout bounds each attempt to note a run.
const timeout = 5 * time.Second

// A verdict is what became of a term.
type verdict struct {
	over bool // the term, before the work started: another may follow
	ran  bool
	err  error
}

// run campaigns until the run of the period has started here or elsewhere, or
// cannot start here any more. A term is given to the loop before anything is
// noted in it, so that the loop never gives up while a run is being noted.
func run(ctx context.Context, st store.Store, cfg leader.ElectionConfig, s Schedule, work lead) (ran bool, err error) {
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	logger = logger.With("group", cfg.Group, "id", cfg.InstanceID)
	reg := &Register{
		Store: st, Group: cfg.Group, ID: cfg.InstanceID, Period: s.At(time.Now()), Timeout: timeout,
		Warn: func(text string) { logger.Warn("note of a run", "text", text) },
	}
	if clock, ok := st.(interface {
		StoredAt(ctx context.Context, key string) (time.Time, uint64, error)
	}); ok {
		reg.StoredAt = clock.StoredAt
	}
	electing, stop := context.WithCancel(ctx)
	defer stop()
	elsewhere := make(chan inspect.Run, 1)
	reg.Watch(electing, func(run inspect.Run) {
		select {
		case elsewhere <- run:
		default: // one is enough
		}
	})
	late := time.NewTimer(time.Until(reg.Period.End))
	defer late.Stop()
	terms := make(chan (<-chan verdict))
	ended := make(chan error, 1)
	go func() {
		ended <- leader.RunWithStore(electing, st, cfg, func(ctx context.Context, term leader.Term) error {
			return attempt(ctx, term, reg, work, terms, logger)
		})
	}()
	for {
		select {
		case err := <-ended: // by itself, or by ctx
			return false, cmp.Or(err, context.Cause(ctx))
		case by := <-elsewhere:
			logNoted(logger, by)
			stop()
			return false, <-ended
		case <-late.C:
			stop()
			return false, cmp.Or(<-ended, ErrPeriodOver)
		case term := <-terms:
			if v := <-term; !v.over {
				stop()
				return v.ran, cmp.Or(v.err, <-ended)
			}
		}
	}
}

// attempt notes the run in a term and calls work, unless another candidate has
// noted it.
func attempt(ctx context.Context, term leader.Term, reg *Register, work lead, terms chan<- (<-chan verdict), logger *slog.Logger) error {
	result := make(chan verdict, 1)
	select {
	case terms <- result:
	case <-ctx.Done():
		return nil
	}
	v := verdict{err: ErrPanicked}
	defer func() { result <- v }()
	by, err := reg.Note(ctx, term.Number)
	switch {
	case by != nil:
		logNoted(logger, *by)
		v = verdict{}
	case err != nil && store.Classify(err) != store.Permanent && !errors.Is(err, ErrClockAhead), err == nil && ctx.Err() != nil:
		v = verdict{over: true}
	case err != nil:
		v = verdict{err: err}
	default:
		v.ran = true
		v.err = work(ctx, term)
	}
	return v.err
}

func logNoted(logger *slog.Logger, by inspect.Run) {
	logger.Info("run of the period started by another candidate", "by", by.ID, "begin", by.Begin, "term", by.Term)
}
