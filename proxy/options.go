package proxy

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// The defaults of Options.
const (
	DefaultWait        = 10 * time.Second
	DefaultDrain       = 10 * time.Second
	DefaultDialTimeout = 3 * time.Second
	DefaultMaxConns    = 4096
)

// Options are the settings of a [Proxy]. The zero value is a good one.
type Options struct {
	// Port, optional, is the port of the leader's host to connect to, from 1 to
	// 65535. By default it is the port of the record's address.
	Port int
	// Wait is how long a new connection waits for a leader that can be
	// connected to, before it is reset. It waits no longer once its client has
	// gone. Zero means DefaultWait; negative, that it has one try.
	Wait time.Duration
	// Grace is how long the connections to a leader go on when its term is seen
	// to have ended. By default they are cut at once.
	Grace time.Duration
	// Drain is how long connections have to end by themselves when Serve is to
	// end. Zero means DefaultDrain; negative, that they are cut at once.
	Drain time.Duration
	// DialTimeout bounds each try to connect to the leader. Zero means
	// DefaultDialTimeout.
	DialTimeout time.Duration
	// MaxConns is how many clients are served at a time by each Serve, those
	// that wait included. Another one is reset at once, or takes the slot of a
	// client that waits and has ended what it sends, which is reset then. Each
	// takes up to six file descriptors on Linux, two for its sockets and four
	// for the pipes through which the kernel moves the bytes, and two
	// elsewhere. Where those run out (RLIMIT_NOFILE), clients wait, and may be
	// reset. Zero means DefaultMaxConns.
	MaxConns int
	// Logger, optional, receives who leads, which leader the proxy cannot
	// reach, and what is cut. Clients' addresses are logged at the level of
	// debugging.
	Logger *slog.Logger
}

// withDefaults returns the options with defaults in place of zero values.
func (o Options) withDefaults() Options {
	o.Wait = cmp.Or(o.Wait, DefaultWait)
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.MaxConns = cmp.Or(o.MaxConns, DefaultMaxConns)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate returns every broken rule.
func (o Options) validate(group string) error {
	var errs []error
	check := func(ok bool, field string, value any, rule string) {
		if !ok {
			errs = append(errs, &leader.ConfigError{Field: field, Value: value, Rule: rule})
		}
	}
	check(store.ValidKey(group), "Group", group, "must be the name of a group")
	check(o.Port >= 0 && o.Port <= maxPort, "Port", o.Port, "must be from 1 to 65535, or 0 for the port of the record")
	check(o.Grace >= 0, "Grace", o.Grace, "must not be negative")
	check(o.DialTimeout >= 0, "DialTimeout", o.DialTimeout, "must be positive, or 0 for the default")
	check(o.MaxConns >= 0, "MaxConns", o.MaxConns, "must be positive, or 0 for the default")
	return errors.Join(errs...)
}

const maxPort = 1<<16 - 1
