package gcsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/objects"
)

// The values of [Options] that are zero.
const (
	DefaultPrefix  = objects.DefaultPrefix
	DefaultTimeout = objects.DefaultTimeout
)

// MaxValue is the size in bytes of the largest value that a [Store] takes.
const MaxValue = objects.MaxValue

// Options are the settings of a Store. All but Bucket may be zero.
type Options struct {
	// Bucket is the bucket's name.
	Bucket string
	// Prefix begins the names of all objects, and ends with a slash, which is
	// added where it is missing. Empty means [DefaultPrefix].
	Prefix string
	// Create has [Store.Check] make the bucket in the Project if it is missing.
	// The user then needs the right storage.buckets.create.
	Create bool
	// Project is where a bucket is made.
	Project string
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

// A Store is the records in a bucket. Its methods may be called concurrently.
type Store struct {
	*objects.Store // all but Check

	bucket  *bucket
	create  bool
	project string
}

var _ store.Checker = (*Store)(nil)

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]+[a-z0-9]$`)

// validBucket reports whether Cloud Storage may take the name. It refuses some
// that pass here.
func validBucket(name string) bool { return len(name) <= 222 && bucketName.MatchString(name) }

// New returns a Store over the user's own service, which must not be nil. It
// does not contact the server; [Store.Check] does.
func New(service *storage.Service, opts Options) (*Store, error) {
	return newStore(service, opts, nil)
}

func newStore(service *storage.Service, opts Options, release func() error) (*Store, error) {
	var faults []error
	if service == nil {
		faults = append(faults, errors.New("service: must not be nil"))
	}
	if !validBucket(opts.Bucket) {
		faults = append(faults, fmt.Errorf("options: Bucket %q: must be the name of a bucket", opts.Bucket))
	}
	if opts.Create && opts.Project == "" {
		faults = append(faults, errors.New("options: Create: needs a Project"))
	}
	b := &bucket{service: service, name: opts.Bucket}
	s, err := objects.New(b, objects.Options{Prefix: opts.Prefix, Timeout: opts.Timeout, Every: opts.Every, Logger: opts.Logger, Release: release})
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("gcsstore: %w", err)
	}
	return &Store{Store: s, bucket: b, create: opts.Create, project: opts.Project}, nil
}

// impossible is a generation that no object has: they are instants in
// microseconds.
const impossible = "1"

// floor is the shortest heartbeat that is not warned of.
const floor = 2 * time.Second

// Check implements [store.Checker]. It refuses a bucket that is missing, unless
// Options.Create has it made, and a user who may not read or, if the request
// names a key to be written, write.
//
// It warns of a heartbeat of less than 2 s, since one object takes about one
// write a second, and, where the user may look at the bucket, of a bucket that
// keeps versions or deleted objects. It then reports the bucket's age, too;
// where the user may not look, it warns of that. A bucket that does not answer
// is store.ErrTransient.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (r store.Report, err error) {
	if s.ConnState() == store.Closed {
		return r, fmt.Errorf("%w: bucket %s", store.ErrClosed, s.bucket.name)
	}
	s.Pace(req.HeartbeatInterval, req.Key)
	if err := s.exists(ctx); err != nil {
		return r, err
	}
	if err := s.Rights(ctx, req, impossible); err != nil {
		return r, err
	}
	if h := req.HeartbeatInterval; 0 < h && h < floor {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Cloud Storage takes about one write a second to one object, and the heartbeat is %v: some renewals will be put off. Choose %v or more.", h, floor))
	}
	err = s.look(ctx, req, &r)
	return r, err
}

// exists finds out whether the bucket is there and may be listed. It makes a
// missing bucket if that was asked for.
func (s *Store) exists(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	list := func() error {
		_, err := s.bucket.service.Objects.List(s.bucket.name).Prefix(s.Prefix()).MaxResults(1).Fields("kind").Context(ctx).Do()
		return err
	}
	err := list()
	if answer := answerOf(err); answer != nil && answer.Code == http.StatusNotFound && s.create {
		_, err = s.bucket.service.Buckets.Insert(s.project, &storage.Bucket{Name: s.bucket.name}).Context(ctx).Do()
		// Another candidate was faster.
		if answer := answerOf(err); err == nil || answer != nil && answer.Code == http.StatusConflict {
			err = list()
		}
	}
	if err != nil {
		return s.bucket.explain(classifyRead(err), err)
	}
	return nil
}

// look judges the bucket's properties for elections, if the user may see them:
// that needs a separate right. The bucket may have been deleted and made again
// just now, so it has to answer: a missing age counts as an age that cannot be
// known.
func (s *Store) look(ctx context.Context, req store.CheckRequest, r *store.Report) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	b, err := s.bucket.service.Buckets.Get(s.bucket.name).Fields("timeCreated", "versioning", "softDeletePolicy").Context(ctx).Do()
	if answer := answerOf(err); answer != nil && (answer.Code == http.StatusForbidden || answer.Code == http.StatusUnauthorized) {
		if req.Key != "" { // it does not matter to observers
			r.Warnings = append(r.Warnings, fmt.Sprintf("The user may not look at bucket %s, so it is unknown whether the bucket was deleted and made again within a lease:"+
				" a leader of before may not know yet, and leads beside the next one. Give storage.buckets.get.", s.bucket.name))
		}
		return nil
	}
	if err != nil {
		return s.bucket.explain(classifyRead(err), err)
	}
	if b.Versioning != nil && b.Versioning.Enabled {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Bucket %s keeps versions, and so each renewal: have a lifecycle rule delete noncurrent versions below %s after a day.", s.bucket.name, s.Prefix()))
	}
	if p := b.SoftDeletePolicy; p != nil && p.RetentionDurationSeconds > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Bucket %s keeps what is replaced for %v, and so each renewal: switch soft deletion off.", s.bucket.name, time.Duration(p.RetentionDurationSeconds)*time.Second))
	}
	made, err := time.Parse(time.RFC3339, b.TimeCreated)
	if now := objects.Date(b.Header); err == nil && !now.IsZero() {
		r.Age = max(now.Sub(made), 1)
	}
	return nil
}
