package leader

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/internal/observation"
	"github.com/seed-ff2cb582/leader/internal/storepool"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// NewElection returns a candidate whose record lives in a NATS JetStream
// key-value bucket. Nothing happens before Start. The connection stays the
// caller's: it is neither closed nor are its handlers touched, and elections
// may share it.
//
// Elections, observations and Controls of one bucket on one connection share
// one natsstore.Store, and so its goroutine and, where the bucket does not
// republish, its consumers. To set that store's options, use
// [NewElectionWithStore].
func NewElection(nc *nats.Conn, cfg ElectionConfig) (Election, error) {
	e, err := electionOn(nc, cfg)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// electionOn is NewElection.
func electionOn(nc *nats.Conn, cfg ElectionConfig) (e election, err error) {
	if err := cfg.validate(true, "connection", nc != nil); err != nil {
		return e, err
	}
	st, release, err := storepool.Common.Borrow(nc, cfg.Bucket, storeOptions(cfg))
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	e = newElection(st, cfg, release)
	// An election that is neither started nor stopped releases nothing by
	// itself.
	runtime.AddCleanup(e.c, func(release func()) { release() }, release)
	return e, nil
}

// storeOptions returns the options of the store on which cfg's elections run.
func storeOptions(cfg ElectionConfig) natsstore.Options {
	opts := natsstore.Options{Domain: cfg.JetStreamDomain, Logger: storeLogger(cfg)}
	if cfg.BucketAutoCreate {
		opts.Create = &natsstore.BucketConfig{Replicas: cfg.Replicas, MaxBytes: cfg.BucketMaxBytes}
	}
	return opts
}

// storeLogger is the Logger for a store that an election uses: as for all else,
// none means silence.
func storeLogger(cfg ElectionConfig) *slog.Logger {
	if cfg.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return cfg.Logger
}

// Observe is [ObserveWithStore] on a NATS key-value bucket: pattern names a
// group, or many by the wildcards * and >. It needs the right to read those
// keys, and none to write. In a bucket that republishes, as those that this
// library makes do, it works without any right to publish; each group is then
// heard of with its next renewal.
func Observe(ctx context.Context, nc *nats.Conn, bucket, pattern string) iter.Seq2[LeaderInfo, error] {
	return func(yield func(LeaderInfo, error) bool) {
		st, release, err := borrowed(nc, bucket)
		if err != nil {
			yield(LeaderInfo{Group: observation.New(pattern).Named()}, err)
			return
		}
		defer release()
		ObserveWithStore(ctx, st, pattern)(yield)
	}
}

// ObserveFunc is [Observe] with functions in place of an iteration, which hear
// more: see [Observer] and [ObserveFuncWithStore]. It blocks, and returns nil
// when ctx is done and ErrConnectionClosed when the connection is permanently
// closed.
func ObserveFunc(ctx context.Context, nc *nats.Conn, bucket, pattern string, observer Observer) error {
	st, release, err := borrowed(nc, bucket)
	if err != nil {
		return err
	}
	defer release()
	return ObserveFuncWithStore(ctx, st, pattern, observer)
}

// Snapshot is [SnapshotWithStore] on a NATS key-value bucket.
func Snapshot(ctx context.Context, nc *nats.Conn, bucket, pattern string) ([]LeaderInfo, error) {
	st, release, err := borrowed(nc, bucket)
	if err != nil {
		return nil, err
	}
	defer release()
	return SnapshotWithStore(ctx, st, pattern)
}

// borrowed returns the store of those who make no bucket and have no logger,
// until it is released.
func borrowed(nc *nats.Conn, bucket string) (st *natsstore.Store, release func(), err error) {
	st, release, err = storepool.Common.Borrow(nc, bucket, natsstore.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return st, release, nil
}
