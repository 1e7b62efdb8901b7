package mysqlstore

import (
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader/store/base"
)

// DefaultTimeout is the value of [Options.Timeout] if that is zero.
const DefaultTimeout = base.DefaultTimeout

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Table is where the records are: a name, or database.name. A name without
	// a database is one of the connection's. Empty means [DefaultTable].
	Table string
	// Create has [Store.Check] make the table, and what belongs to it, if it is
	// missing. The user then needs the rights to create tables and triggers.
	// See [Schema] for doing it by migrations.
	Create bool
	// Timeout bounds a call whose context has no deadline. Zero means
	// [DefaultTimeout].
	Timeout time.Duration
	// Every is the longest time from one look at what is watched to the next.
	// Two fifths of a known heartbeat take its place if they are shorter.
	// Default: 1 s.
	Every time.Duration
	// Logger hears of panics in functions that a watch was given, at level
	// error. Nil is silent.
	Logger *slog.Logger
}
