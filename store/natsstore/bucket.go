package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
)

// A BucketConfig describes a bucket for elections. Its zero value, but for
// Bucket, is a good one.
type BucketConfig struct {
	// Bucket is the bucket's name.
	Bucket string
	// Description is shown by `nats kv info`.
	Description string
	// Replicas is the number of servers that keep the bucket, 1 to 5. An even
	// number costs more than the odd number below it and survives no more
	// failures. Zero means 3, or 1 if the server is not part of a cluster.
	Replicas int
	// Storage is where the servers keep it: on file (the zero value) or in
	// memory, which a restart erases.
	Storage jetstream.StorageType
	// MaxBytes bounds the bucket's size; zero means no bound. Accounts may
	// demand one. A bucket that is full refuses renewals.
	MaxBytes int64
	// Placement constrains the servers, by cluster and by tags; nil means any.
	Placement *jetstream.Placement
	// Republish is the prefix of the subjects on which stored records are
	// republished, ending in a dot. Empty means "leader.<bucket>.".
	Republish string

	reached uint64 // a sequence of a bucket of this name that is gone
}

// EnsureBucket makes the bucket if it does not exist, and leaves an existing
// bucket as it is, whatever its configuration. Any number of processes may call
// it at once. It returns the errors of package store. The call ends with ctx,
// or after [DefaultTimeout] if ctx has no deadline.
//
// While a cluster has fewer servers up than the bucket has replicas, it repeats
// the request: a bucket made with one replica would keep one replica when the
// other servers are back. For a cluster that will never have enough servers,
// set Replicas to a smaller number.
//
// The bucket differs from one of `nats kv add` in what protects elections:
//
//   - Rollups and purges are refused. With rollups a candidate that may write
//     its own key alone can erase every key of the bucket.
//   - Nothing expires: a record's age is judged by those who watch, not by the
//     server's wall clock.
//   - Sequences start at the current time in microseconds, so that revisions do
//     not repeat after the bucket is deleted and made again. They stay below
//     2^53 for two centuries. A [Store] that makes a bucket again also begins
//     above what it saw of the bucket before, whose maker's clock may be ahead.
//   - Stored records are republished, so that a watch costs the server nothing.
func EnsureBucket(ctx context.Context, js jetstream.JetStream, cfg BucketConfig) error {
	if !validBucket(cfg.Bucket) {
		return fmt.Errorf("%w: bucket %q: must be one or more of letters, digits, - and _", store.ErrInvalid, cfg.Bucket)
	}
	ctx, cancel := bounded(ctx, DefaultTimeout)
	defer cancel()
	replicas := cmp.Or(cfg.Replicas, 3)
	err := cfg.create(ctx, js, replicas)
	if cfg.Replicas == 0 && refusedWith(err, codeReplicasNotHere) {
		replicas = 1
		err = cfg.create(ctx, js, replicas)
	}
	switch {
	case err == nil, errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		return nil
	case refusedWith(err, codeReplicasNotHere):
		return fmt.Errorf("%w: making bucket %q: a server without a cluster cannot keep %d replicas, which need a cluster of as many servers: %w",
			createClass(err), cfg.Bucket, replicas, err)
	case refusedWith(err, codeNeedsMaxBytes):
		return fmt.Errorf("%w: making bucket %q: the account demands a bound for its size: make it with BucketMaxBytes or `leader bucket create %s --max-bytes BYTES`: %w",
			createClass(err), cfg.Bucket, cfg.Bucket, err)
	case refusedWith(err, codeNoPeers):
		return fmt.Errorf("%w: making bucket %q: the cluster does not have %d servers for as many replicas now: start those that are down,"+
			" or set Replicas to fewer: %w", createClass(err), cfg.Bucket, replicas, err)
	}
	return fmt.Errorf("%w: making bucket %q: %w", createClass(err), cfg.Bucket, err)
}

// create makes the stream. While the cluster lacks servers for the replicas, it
// tries again, until ctx is done.
func (cfg BucketConfig) create(ctx context.Context, js jetstream.JetStream, replicas int) error {
	var latest error
	pace := backoff.Policy{Initial: 50 * time.Millisecond, Max: time.Second, Jitter: 0.5}
	pace.Repeat(ctx, func() bool {
		_, err := js.CreateStream(ctx, cfg.stream(replicas, time.Now()))
		if err != nil && latest != nil && ctx.Err() != nil {
			return true // the previous answer explains more than the end of ctx
		}
		latest = err
		return !refusedWith(err, codeNoPeers)
	})
	return latest
}

// bounded gives a context without a deadline one: a message that the servers
// lose is never answered, and nothing else would end the call.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// createClass gives the class of a failure to make a bucket. An explicit
// refusal stays one until the configuration, the account or the cluster
// changes. Anything else is worth another try, since making a bucket is
// idempotent.
func createClass(err error) error {
	var api *jetstream.APIError
	switch {
	case refusedWith(err, codeNoPeers): // the servers that are down may come back
		return store.ErrTransient
	case errors.As(err, &api) && api.Code < 500, refusedWith(err, codeReplicasNotHere):
		return store.ErrPermanent
	}
	return store.ErrTransient
}

// refusedWith reports whether the server refused with that code.
func refusedWith(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

func (cfg BucketConfig) stream(replicas int, now time.Time) jetstream.StreamConfig {
	subjects := "$KV." + cfg.Bucket + ".>"
	republish := cfg.Republish
	if republish == "" {
		republish = defaultRepublish(cfg.Bucket)
	}
	maxBytes := cfg.MaxBytes
	if maxBytes == 0 {
		maxBytes = -1
	}
	return jetstream.StreamConfig{
		Name:              "KV_" + cfg.Bucket,
		Description:       cfg.Description,
		Subjects:          []string{subjects},
		Storage:           cfg.Storage,
		Replicas:          replicas,
		Placement:         cfg.Placement,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxConsumers:      -1,
		MaxMsgSize:        -1,
		MaxBytes:          maxBytes,
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		DenyPurge:         true,
		AllowDirect:       true,
		FirstSeq:          cfg.first(now),
		RePublish:         &jetstream.RePublish{Source: subjects, Destination: republish + ">"},
	}
}

const (
	// unseen is how many more sequences than were seen the bucket that is gone
	// may have reached.
	unseen = 1_000_000
	// aheadMost is by how much a clock is believed to be ahead of ours. Who
	// may publish what the bucket republishes can make up any sequence.
	aheadMost = 24 * time.Hour
)

// first returns the first sequence: the current time in microseconds, or more
// if the bucket that is gone had reached that by a clock that is ahead of ours.
func (cfg BucketConfig) first(now time.Time) uint64 {
	present, beyond := uint64(now.UnixMicro()), cfg.reached+unseen
	if cfg.reached > 0 && beyond > present && cfg.reached < present+uint64(aheadMost.Microseconds()) {
		return beyond
	}
	return present
}

func defaultRepublish(bucket string) string { return "leader." + bucket + "." }

// validBucket reports whether a bucket may have the name: nats.go,
// jetstream/kv.go, validBucketRe.
func validBucket(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return name != ""
}
