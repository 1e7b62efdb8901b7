package natsstore

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The values of [Options.Timeout] and [Options.QueueSize] if those are zero.
const (
	DefaultTimeout   = 5 * time.Second
	DefaultQueueSize = 2048
)

// minQueueSize lets a few reads and deliveries wait at once.
const minQueueSize = 16

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Domain is the JetStream domain in which the bucket lives; empty means the
	// domain of the server the connection leads to. The same bucket name in two
	// domains is two buckets, and so two leaders: behind leaf nodes always name
	// the domain.
	Domain string
	// APIPrefix replaces $JS.API, for a bucket imported from another account.
	// At most one of Domain and APIPrefix may be set.
	APIPrefix string
	// Create, if not nil, makes the bucket when it is found missing, at
	// [Store.Check] or later. Its Bucket field is ignored in favour of the
	// store's bucket.
	Create *BucketConfig
	// Timeout bounds a call whose context has no deadline, and how long Watch
	// and WatchPattern wait, as they begin, for the next key's current state.
	// Zero means [DefaultTimeout].
	Timeout time.Duration
	// WatchWholeBucket watches all keys of the bucket with one subscription and
	// picks the wanted ones here, instead of one subscription per key and
	// pattern. It is right for a process that takes part in most of the
	// bucket's elections; the user then needs permission to read the whole
	// bucket.
	WatchWholeBucket bool
	// Republished is the prefix of the subjects on which the bucket republishes
	// its records, such as "leader.mybucket.": a subject that ends in a dot.
	// Empty means that the store learns it from the bucket's configuration.
	// Setting it saves that request, and with it the permission to make it.
	Republished string
	// QueueSize is how many messages of its watches may wait for the store's
	// goroutine, in all. Zero means [DefaultQueueSize], which serves thousands
	// of keys and costs 16 KiB; a store for a single election does with a
	// fraction. When the queue overflows, the keys are read again.
	QueueSize int
	// Logger hears, at level warn, of a mirror that answers reads of the bucket,
	// and at level error of a panic in the store's own goroutines, which resume
	// after it, or in a function that a watch was given. Nil is silent.
	Logger *slog.Logger
}

// withDefaults replaces what is zero.
func (o Options) withDefaults() Options {
	if o.QueueSize == 0 {
		o.QueueSize = DefaultQueueSize
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return o
}

// validate reports every fault of what New was given, after the defaults.
func validate(nc *nats.Conn, bucket string, opts Options) error {
	var faults []error
	fault := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(nc == nil, "connection: must not be nil")
	fault(!validBucket(bucket), "bucket %q: must be one or more of letters, digits, - and _", bucket)
	fault(opts.Domain != "" && opts.APIPrefix != "", "options: Domain %q, APIPrefix %q: only one of them may be set", opts.Domain, opts.APIPrefix)
	fault(!validPrefix(opts.Republished), "options: Republished %q: must be a subject that ends in a dot, without wildcards and spaces, or empty", opts.Republished)
	fault(opts.Timeout < 0, "options: Timeout %v: must not be negative", opts.Timeout)
	fault(opts.QueueSize < minQueueSize, "QueueSize %d: must be at least %d", opts.QueueSize, minQueueSize)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("natsstore: %w", errors.Join(faults...))
}

// validPrefix reports whether subjects may begin so. Without the dot at its end
// a watch would listen on subjects that nobody publishes on.
func validPrefix(prefix string) bool {
	tokens := strings.Split(prefix, ".")
	return prefix == "" || len(tokens) > 1 && tokens[len(tokens)-1] == "" &&
		!slices.ContainsFunc(tokens[:len(tokens)-1], func(token string) bool { return token == "" || strings.ContainsAny(token, "*> \t\r\n") })
}
