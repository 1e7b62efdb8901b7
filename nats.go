package leader

import (
	"context"
	"fmt"
	"iter"

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
	opts := natsstore.Options{Domain: cfg.JetStreamDomain, QueueSize: oneGroup}
	if cfg.BucketAutoCreate {
		opts.Create = &natsstore.BucketConfig{}
	}
	st, err := natsstore.New(nc, cfg.Bucket, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	e := newElection(st, cfg)
	e.dispose = st.Close
	return e, nil
}

// oneGroup is the queue of a store that watches one group: two keys, of which one changes
// with each renewal.
const oneGroup = 64

// Observe is [ObserveWithStore] on a NATS key-value bucket. It needs the right to read the
// group's key, and none to write.
func Observe(ctx context.Context, nc *nats.Conn, bucket, group string) iter.Seq2[LeaderInfo, error] {
	return func(yield func(LeaderInfo, error) bool) {
		st, err := natsstore.New(nc, bucket, natsstore.Options{QueueSize: oneGroup})
		if err != nil {
			yield(LeaderInfo{Group: group}, fmt.Errorf("%w: %w", ErrInvalidConfig, err))
			return
		}
		defer st.Close()
		ObserveWithStore(ctx, st, group)(yield)
	}
}
