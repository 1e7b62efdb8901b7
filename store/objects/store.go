package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// The values of [Options] that are zero.
const (
	DefaultPrefix  = "leader/"
	DefaultTimeout = base.DefaultTimeout
)

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Prefix begins the names of all objects, and ends with a slash, which is
	// added where it is missing. Empty means [DefaultPrefix].
	Prefix string
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
	// Release ends the connections to the bucket, if they belong to the Store.
	Release func() error
}

// A Store is the records in a bucket. Its methods may be called concurrently.
type Store struct {
	*base.Store // all but Check
	*registers
}

// registers are the records and what is known of them.
type registers struct {
	bucket  Bucket
	prefix  string
	timeout time.Duration

	mu    sync.Mutex
	known map[string]known
	uses  uint64 // how often one of them was asked for or seen
	swept uint64 // how often that was when they were last swept
	room  int    // how many are known when they are swept again
	floor uint64 // no revision of what was forgotten is larger
	clock clock  // from the last read
}

// known is what was last seen of a register.
type known struct {
	entry store.Entry
	tag   string // of the entry; empty if there is none
	most  uint64 // the largest revision that was ever seen
	clock clock  // when it was read
	used  uint64 // which of the uses was its last
}

// A clock is what is known of the system's clock. Its zero value knows nothing.
type clock struct {
	system time.Time // by the second
	seen   time.Time
}

// now is the system's clock as it must be by now.
func (c clock) now() time.Time {
	if c.system.IsZero() {
		return time.Time{}
	}
	return c.system.Add(time.Since(c.seen))
}

// New returns a Store over the bucket, which it does not contact.
func New(bucket Bucket, opts Options) (*Store, error) {
	if opts.Prefix == "" {
		opts.Prefix = DefaultPrefix
	}
	r := &registers{
		bucket: bucket, prefix: strings.TrimSuffix(opts.Prefix, "/") + "/", timeout: cmp.Or(opts.Timeout, DefaultTimeout), known: make(map[string]known),
	}
	s, err := base.New(source{r}, base.Options{
		Name: "objects " + r.prefix, MaxValue: MaxValue, Timeout: opts.Timeout, Every: opts.Every, Logger: opts.Logger, Release: opts.Release,
	})
	if err := errors.Join(validate(bucket, opts), err); err != nil {
		return nil, err
	}
	return &Store{s, r}, nil
}

// validate reports every fault of what New was given.
func validate(bucket Bucket, opts Options) error {
	var faults []error
	if bucket == nil {
		faults = append(faults, errors.New("bucket: must not be nil"))
	}
	if err := validPrefix(opts.Prefix); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// maxPrefix leaves room for the longest key in a name of 1,024 bytes.
const maxPrefix = 512

// validPrefix reports what is wrong with a prefix. Its pieces have the alphabet
// of keys, so that no system and no gateway reads them differently.
func validPrefix(prefix string) error {
	bad := len(prefix) > maxPrefix
	for p := range strings.SplitSeq(strings.TrimSuffix(prefix, "/"), "/") {
		bad = bad || prefix != "" && !store.ValidKey(p)
	}
	if bad {
		return fmt.Errorf("options: Prefix %q: must be at most %d bytes, and its pieces letters, digits and -_=. with no dot at either end", prefix, maxPrefix)
	}
	return nil
}

// Prefix returns how the names of all objects begin.
func (r *registers) Prefix() string { return r.prefix }

// Timeout returns what bounds a call whose context has no deadline.
func (r *registers) Timeout() time.Duration { return r.timeout }

// Name returns the name of a key's object.
func (r *registers) Name(key string) string { return r.prefix + encodeName(key) }

// Ping finds out whether the bucket answers.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return err
	}
	defer cancel()
	return s.ping(ctx)
}

func (r *registers) ping(ctx context.Context) error {
	_, err := r.bucket.Read(ctx, r.prefix+absent)
	return err
}

// absent is the name of an object that is never made: no key has it.
const absent = "'none"

// Swap implements [base.System]. It sends one write, once, after a read if the
// record at that revision is not known.
func (r source) Swap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Expected >= limit {
		return 0, fmt.Errorf("%w: key %q: no revision is as large as %d", store.ErrConflict, w.Key, w.Expected)
	}
	tag, revision, err := r.over(ctx, w)
	if err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w: nothing was sent: %w", store.ErrTransient, context.Cause(ctx))
	}
	content := encode(revision, w.Tombstone, w.Value)
	next, err := r.bucket.Write(ctx, r.Name(w.Key), content, tag)
	if err != nil {
		if errors.Is(err, store.ErrConflict) {
			r.forget(w.Key, tag)
		}
		return 0, fmt.Errorf("key %q: %w", w.Key, err)
	}
	r.learn(store.Entry{Key: w.Key, Revision: revision, Tombstone: w.Tombstone, Value: content[len(content)-len(w.Value):]}, next, clock{})
	return revision, nil
}

// recent is how long a record that was seen to be missing is made without
// another look.
const recent = 10 * time.Second

// over returns the tag over which a write goes, and the revision that it is to
// have.
func (r *registers) over(ctx context.Context, w store.Write) (tag string, revision uint64, err error) {
	k := r.recall(w.Key)
	switch {
	case w.Expected != 0 && k.entry.Revision == w.Expected && k.tag != "":
		return k.tag, w.Expected + 1, nil
	case w.Expected == 0 && k.tag == "" && !k.clock.seen.IsZero() && time.Since(k.clock.seen) < recent:
		return "", r.first(w.Key, k.clock.now()), nil
	}
	e, object, err := r.read(ctx, w.Key)
	switch {
	case err != nil:
		return "", 0, err
	case e.Revision != w.Expected:
		return "", 0, fmt.Errorf("%w: key %q has revision %d, and not %d", store.ErrConflict, w.Key, e.Revision, w.Expected)
	case e.Revision == 0:
		return "", r.first(w.Key, object.Now), nil
	}
	return object.Tag, w.Expected + 1, nil
}

// first returns the revision of a record that is made; now is the system's
// clock, if known. It exceeds all earlier revisions, unless a stranger has used
// the largest one.
func (r *registers) first(key string, now time.Time) uint64 {
	most := r.recall(key).most
	r.mu.Lock()
	defer r.mu.Unlock()
	at := instant(time.Now(), now)
	if next := max(at, most+1, r.floor+1); next < limit {
		return next
	}
	return at
}
