package mongostore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// The values of [Options.Collection] and [Options.Timeout] if those are zero.
const (
	DefaultCollection = "leader"
	DefaultTimeout    = base.DefaultTimeout
)

// MaxValue is the size in bytes of the largest value that a Store takes. It is
// far below the 16 MiB of a document.
const MaxValue = 1 << 20

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Collection is the collection that holds the registers, and nothing else.
	// MongoDB makes it with the first write. Empty means [DefaultCollection].
	Collection string
	// Timeout bounds a call whose context has no deadline, and a read for the
	// watches. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Logger hears, at level error, of a panic in a function that a watch was
	// given and, at level warning, of a change stream that broke off. Nil
	// is silent.
	Logger *slog.Logger
}

// A Store is a [store.Store] over one collection. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter],
// [store.Checker] and [store.Opened]. Its methods may be called concurrently.
type Store struct {
	*base.Store // all but Check

	db    *mongo.Database
	reads *mongo.Collection // with a linearizable read concern, at the primary
	opts  Options
}

var _ store.Checker = (*Store)(nil)

// New returns a store over a collection of the database. It sends nothing; use
// [Store.Check] to learn whether MongoDB can be reached and suits. The
// database's client stays the caller's. Concerns, preferences and retries that
// it is configured with do not apply.
func New(db *mongo.Database, opts Options) (*Store, error) {
	return newStore(db, opts, nil)
}

func newStore(db *mongo.Database, opts Options, release func() error) (*Store, error) {
	if db == nil {
		return nil, errors.New("mongostore: database: must not be nil")
	}
	opts.Collection = cmp.Or(opts.Collection, DefaultCollection)
	linearizable := options.Collection().SetReadConcern(readconcern.Linearizable()).SetReadPreference(readpref.Primary())
	s := &Store{db: db, reads: db.Collection(opts.Collection, linearizable), opts: opts}
	var err error
	s.Store, err = base.New(source{s}, base.Options{
		Name: "MongoDB, collection " + opts.Collection, MaxValue: MaxValue, Timeout: opts.Timeout, Logger: opts.Logger, Release: release,
	})
	if err != nil {
		return nil, fmt.Errorf("mongostore: %w", err)
	}
	return s, nil
}
