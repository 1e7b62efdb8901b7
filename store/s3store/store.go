package s3store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

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
	// Create has [Store.Check] make the bucket if it is missing. The user then
	// needs the right s3:CreateBucket.
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

// A Store is the records in a bucket. Its methods may be called concurrently.
type Store struct {
	*objects.Store // all but Check

	bucket *bucket
	create bool
	proved atomic.Bool // that the bucket obeys conditions
}

var _ store.Checker = (*Store)(nil)

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]+[A-Za-z0-9]$`)

// validBucket reports whether S3 and those that resemble it take the name.
func validBucket(name string) bool { return len(name) <= 255 && bucketName.MatchString(name) }

// New returns a Store over the user's own client. It does not contact the
// server; [Store.Check] does. The client's retries do not apply to it.
func New(client *s3.Client, opts Options) (*Store, error) {
	return newStore(client, opts, nil)
}

func newStore(client *s3.Client, opts Options, release func() error) (*Store, error) {
	var faults []error
	if client == nil {
		faults = append(faults, errors.New("client: must not be nil"))
	}
	if !validBucket(opts.Bucket) {
		faults = append(faults, fmt.Errorf("options: Bucket %q: must be the name of a bucket", opts.Bucket))
	}
	b := &bucket{client: client, name: opts.Bucket}
	s, err := objects.New(b, objects.Options{Prefix: opts.Prefix, Timeout: opts.Timeout, Every: opts.Every, Logger: opts.Logger, Release: release})
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("s3store: %w", err)
	}
	return &Store{Store: s, bucket: b, create: opts.Create}, nil
}

// impossible is an ETag that no object has.
const impossible = "00000000000000000000000000000000-0"

// Check implements [store.Checker]. It refuses a bucket that is missing, unless
// Options.Create has it made, and a user who may not read or, if the request
// names a key to be written, write. A bucket that does not obey the conditions
// of writes is refused as well: this is tried once in a Store's life, by some
// writes to a separate object below PREFIX'check/, which is then removed.
//
// It warns of a bucket that keeps versions.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (r store.Report, err error) {
	if s.ConnState() == store.Closed {
		return r, fmt.Errorf("%w: bucket %s", store.ErrClosed, s.bucket.name)
	}
	s.Pace(req.HeartbeatInterval, req.Key)
	if err := s.exists(ctx); err != nil {
		return r, err
	}
	if req.Key != "" && !s.proved.Load() {
		left, err := s.Prove(ctx, s.bucket.remove)
		if err != nil {
			return r, err
		}
		if left != nil {
			r.Warnings = append(r.Warnings, fmt.Sprintf("An object on which conditions were tried is left in %s'check/: the user has no right to delete it. Grant s3:DeleteObject there.", s.Prefix()))
		}
		s.proved.Store(true)
	}
	if err := s.Rights(ctx, req, impossible); err != nil {
		return r, err
	}
	if s.versioned(ctx) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Bucket %s keeps versions, and so each renewal: have a lifecycle rule delete noncurrent versions below %s after a day.", s.bucket.name, s.Prefix()))
	}
	return r, nil
}

// exists finds out whether the bucket is there and may be listed, without which
// the server denies a missing object in place of saying that it is missing. It
// makes a missing bucket if that was asked for.
func (s *Store) exists(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	list := func() error {
		_, err := s.bucket.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket.name, Prefix: aws.String(s.Prefix()), MaxKeys: aws.Int32(1)}, once)
		return err
	}
	err := list()
	if code(err) == noSuchBucket && s.create {
		if err = s.make(ctx); err == nil {
			err = list()
		}
	}
	if err != nil {
		return s.bucket.explain(classifyRead(err), err)
	}
	return nil
}

// home is the region that must not be named.
const home = "us-east-1"

// make makes the bucket. Another candidate may be faster.
func (s *Store) make(ctx context.Context) error {
	in := &s3.CreateBucketInput{Bucket: &s.bucket.name}
	if region := s.bucket.client.Options().Region; region != home {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
	}
	_, err := s.bucket.client.CreateBucket(ctx, in, once)
	if code(err) == ownedByYou {
		return nil
	}
	return err
}

// versioned reports whether the bucket is known to keep versions: the question
// needs a separate right, and not every provider supports it.
func (s *Store) versioned(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	out, err := s.bucket.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.bucket.name}, once)
	return err == nil && out.Status == types.BucketVersioningStatusEnabled
}
