package pgstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// DefaultTimeout is the value of [Options.Timeout] if that is zero.
const DefaultTimeout = 5 * time.Second

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Table is where the records are: a name, or schema.name. A name without a
	// schema is one of the schema public, whatever the search_path. Empty means
	// [DefaultTable].
	Table string
	// Create has [Store.Check] make the table, and what belongs to it, if it is
	// missing or of an earlier version. The user then needs the right to create
	// in its schema. See [Schema] for doing it by migrations.
	Create bool
	// Timeout bounds a call whose context has no deadline. Zero means
	// [DefaultTimeout].
	Timeout time.Duration
	// Every is the time from one look at what is watched to the next where news
	// do not come and no heartbeat is known. Default: 1 s.
	Every time.Duration
	// Logger hears of notifications that break off, at level warning, and of
	// panics in functions that a watch was given, at level error. Nil is silent.
	Logger *slog.Logger
}

// validate reports every fault of what New was given; none: no pool.
func validate(none bool, opts Options) (names, error) {
	n, err := parseTable(opts.Table)
	faults := []error{err}
	if none {
		faults = append(faults, errors.New("pool: must not be nil"))
	}
	if opts.Timeout < 0 {
		faults = append(faults, fmt.Errorf("options: Timeout %v: must not be negative", opts.Timeout))
	}
	if opts.Every < 0 {
		faults = append(faults, fmt.Errorf("options: Every %v: must not be negative", opts.Every))
	}
	if err := errors.Join(faults...); err != nil {
		return names{}, fmt.Errorf("pgstore: %w", err)
	}
	return n, nil
}
