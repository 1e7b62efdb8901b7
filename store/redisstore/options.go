package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store/base"
)

// The values of [Options.Prefix] and [Options.Timeout] if those are zero.
const (
	DefaultPrefix  = "leader:"
	DefaultTimeout = base.DefaultTimeout
)

// MaxValue is the size in bytes of the largest value that a Store takes.
const MaxValue = 1 << 20

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Prefix begins the name of each key and channel: the register "reports"
	// is the key "leader:reports". Two prefixes are two stores, unless one
	// begins the other: "x.y" after "leader:" is "y" after "leader:x.". It has
	// letters, digits and any of -_=/.:{} and is [DefaultPrefix] if it is empty.
	Prefix string
	// Timeout bounds a call whose context has no deadline, and each read of a
	// watch. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Wait is the number of replicas that must have a write before it counts as
	// applied, and what is read before it is believed. A write that fewer have
	// within a second ends with store.ErrUnknown, and such a read with
	// store.ErrTransient. It belongs to servers of which a replica may take the
	// master's place, and is then the number of those replicas. Zero waits for
	// none.
	Wait int
	// Fenced states that a guard turns a stale leader away from whatever the
	// leaders change (package fence). Without it, [Store.Check] refuses a
	// server whose replica may be promoted while the server goes on: there two
	// lead for as long as both acknowledge writes.
	Fenced bool
	// Logger receives, at level warning, interruptions of the news and failures
	// to publish a write, and at level error panics in the functions of
	// watches. Nil is silent.
	Logger *slog.Logger
}

// withDefaults replaces what is zero.
func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate reports every fault of New's arguments, after the defaults. No
// character that a prefix may have is special in a pattern.
func validate(rdb redis.UniversalClient, opts Options) error {
	var faults []error
	fault := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	faults = append(faults, unfit(rdb))
	fault(!regexp.MustCompile(`^[-A-Za-z0-9_=/.:{}]{1,128}$`).MatchString(opts.Prefix),
		"options: Prefix %q: must be up to 128 letters, digits and -_=/.:{}", opts.Prefix)
	fault(opts.Wait < 0, "options: Wait %d: must not be negative", opts.Wait)
	return errors.Join(faults...)
}

// unfit returns why a client cannot read and write the one register that a key
// is, or nil.
func unfit(rdb redis.UniversalClient) error {
	switch c := rdb.(type) {
	case *redis.Client:
		if c == nil {
			break
		}
		return nil
	case *redis.ClusterClient:
		if c == nil {
			break
		}
		if o := c.Options(); o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return errors.New("client: it reads from replicas, which lag: make it without ReadOnly, RouteByLatency and RouteRandomly")
		}
		return nil
	case *redis.Ring:
		return errors.New("client: a Ring takes keys to another server when theirs is down, where nothing is known of their leaders: use one server, Sentinel or a cluster")
	case nil:
	default:
		return fmt.Errorf("client: a %T, of which nothing is known: use a *redis.Client or a *redis.ClusterClient", rdb)
	}
	return errors.New("client: must not be nil")
}
