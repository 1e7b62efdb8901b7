package leader

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// NewElection returns a candidate whose record lives in a NATS JetStream key-value
// bucket. Nothing happens before Start. The connection stays the caller's: it is
// neither closed nor are its handlers touched, and elections may share it.
//
// Many elections of one bucket are best made with [NewElectionWithStore] on one natsstore.Store,
// which they then share.
func NewElection(nc *nats.Conn, cfg ElectionConfig) (Election, error) {
	if err := cfg.validate(true, "connection", nc != nil); err != nil {
		return nil, err
	}
	opts := natsstore.Options{Domain: cfg.JetStreamDomain, QueueSize: oneGroup, Logger: storeLogger(cfg)}
	if cfg.BucketAutoCreate {
		opts.Create = &natsstore.BucketConfig{Replicas: cfg.Replicas}
	}
	st, err := natsstore.New(nc, cfg.Bucket, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	e := newElection(st, cfg)
	e.dispose = st.Close
	return e, nil
}

// storeLogger is the Logger of a store that an election owns: as for all else, none means silence.
func storeLogger(cfg ElectionConfig) *slog.Logger {
	if cfg.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return cfg.Logger
}

// oneGroup is the queue of a store that watches one group: two keys, of which one changes
// with each renewal.
const oneGroup = 64

// Observe is [ObserveWithStore] on a NATS key-value bucket: pattern names a group, or many by the wildcards * and >.
// It needs the right to read those keys, and none to write. In a bucket that republishes, as those
// that this library makes do, it works without any right to publish; each group is then
// heard of with its next renewal.
//
// Many observations of one bucket are best made with [ObserveWithStore] on one natsstore.Store.
func Observe(ctx context.Context, nc *nats.Conn, bucket, pattern string) iter.Seq2[LeaderInfo, error] {
	return func(yield func(LeaderInfo, error) bool) {
		st, err := observed(nc, bucket)
		if err != nil {
			yield(LeaderInfo{Group: newObservation(pattern).named()}, err)
			return
		}
		defer st.Close()
		ObserveWithStore(ctx, st, pattern)(yield)
	}
}

// ObserveFunc is [Observe] with functions in place of an iteration, which hear more: see [Observer] and
// [ObserveFuncWithStore]. It blocks, and returns nil when ctx is done and ErrConnectionClosed when the connection is
// closed for good.
func ObserveFunc(ctx context.Context, nc *nats.Conn, bucket, pattern string, observer Observer) error {
	st, err := observed(nc, bucket)
	if err != nil {
		return err
	}
	defer st.Close()
	return ObserveFuncWithStore(ctx, st, pattern, observer)
}

// Snapshot is [SnapshotWithStore] on a NATS key-value bucket.
func Snapshot(ctx context.Context, nc *nats.Conn, bucket, pattern string) ([]LeaderInfo, error) {
	st, err := observed(nc, bucket)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	return SnapshotWithStore(ctx, st, pattern)
}

// observed returns a store for one observation.
func observed(nc *nats.Conn, bucket string) (*natsstore.Store, error) {
	st, err := natsstore.New(nc, bucket, natsstore.Options{QueueSize: oneGroup})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return st, nil
}
