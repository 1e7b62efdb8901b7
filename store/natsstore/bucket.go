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
	// Replicas is the number of servers that keep the bucket: 1 to 5, of which
	// the even ones cost more than the odd one below and survive no more. Zero
	// means 3, or 1 where the server stands alone.
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
}

// EnsureBucket makes the bucket if there is none of that name, and leaves an
// existing one as it is, whatever its configuration. Any number of processes
// may call it at once. Errors are those of package store; the call ends with
// ctx, or after [DefaultTimeout] if ctx has no deadline.
//
// While a cluster has fewer servers up than the bucket has replicas, it repeats
// the request: a bucket with one replica would stay so when the others are back.
// A cluster that will never have as many takes a bucket whose Replicas says so.
//
// The bucket differs from one of `nats kv add` in what protects elections:
//
//   - Rollups and purges are refused. With rollups a candidate that may write
//     its own key alone can erase every key of the bucket.
//   - Nothing expires: a record's age is judged by those who watch, not by the
//     server's wall clock.
//   - Sequences begin at the present time in microseconds, so that deleting the
//     bucket and making it anew brings no revision back. They stay below 2^53
//     for two centuries.
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
		return fmt.Errorf("%w: making bucket %q: a server that stands alone cannot keep %d replicas, which takes a cluster of as many: %w",
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
			return true // the answer before says more than the end of this call
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
		FirstSeq:          uint64(now.UnixMicro()),
		RePublish:         &jetstream.RePublish{Source: subjects, Destination: republish + ">"},
	}
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
