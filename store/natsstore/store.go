package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// The values of [Options.Timeout] and [Options.QueueSize] if those are zero.
const (
	DefaultTimeout   = 5 * time.Second
	DefaultQueueSize = 2048
)

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Domain is the JetStream domain in which the bucket lives; empty means
	// that of the server the connection leads to. The same bucket name in two
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
	// Timeout bounds a call whose context has no deadline, and the time that
	// Watch takes to begin. Zero means [DefaultTimeout].
	Timeout time.Duration
	// WatchWholeBucket watches all keys of the bucket with one subscription and
	// picks the wanted ones here, instead of one subscription per key and
	// pattern. It is right for a process that takes part in most of the
	// bucket's elections; the user then needs permission to read the whole
	// bucket.
	WatchWholeBucket bool
	// Republished is the prefix of the subjects on which the bucket republishes
	// its records, such as "leader.mybucket.". Empty means that the store
	// learns it from the bucket's configuration. Setting it saves that request,
	// and with it the permission to make it.
	Republished string
	// QueueSize is how many messages of its watches may wait for the store's
	// goroutine, in all. Zero means [DefaultQueueSize], which serves thousands
	// of keys and costs 16 KiB; a store for a single election does with a
	// fraction. When the queue overflows, the keys are read anew.
	QueueSize int
	// Logger is told, at level error, of a panic in the store's own goroutines,
	// which resume after it, or in a function that a watch was given. Nil means
	// slog.Default(): such a panic is caught, and is not to go unheard.
	Logger *slog.Logger
}

// minQueueSize lets a few reads and deliveries wait at once.
const minQueueSize = 16

// A Store is a [store.Store] over one key-value bucket. It is also a
// [store.Watcher], [store.PatternWatcher], [store.Offerer],
// [store.Broadcaster], [store.ConnReporter] and [store.Checker]. Its methods
// may be called concurrently.
type Store struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	opts   Options
	bucket string
	stream string // KV_<bucket>
	api    string // $JS.API. or what replaces it
	put    string // prefix of the subjects to which records are published
	stored string // prefix of the subjects under which they are stored

	noDirect atomic.Bool // the bucket was found to refuse direct gets

	mu     sync.Mutex // guards all that follows, and everything in hub
	closed bool
	hub    *hub // nil while nobody watches, listens or takes offers
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.Offerer        = (*Store)(nil)
	_ store.Broadcaster    = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
)

// New returns a store over the bucket. It sends nothing; use [Store.Check] to
// learn whether the bucket is there and suits. The connection stays the
// caller's: the store neither closes it nor changes its handlers.
func New(nc *nats.Conn, bucket string, opts Options) (*Store, error) {
	var faults []error
	if nc == nil {
		faults = append(faults, errors.New("connection: must not be nil"))
	}
	if !validBucket(bucket) {
		faults = append(faults, fmt.Errorf("bucket %q: must be one or more of letters, digits, - and _", bucket))
	}
	if opts.Domain != "" && opts.APIPrefix != "" {
		faults = append(faults, fmt.Errorf("options: Domain %q, APIPrefix %q: only one of them may be set", opts.Domain, opts.APIPrefix))
	}
	if opts.Timeout < 0 {
		faults = append(faults, fmt.Errorf("options: Timeout %v: must not be negative", opts.Timeout))
	}
	if opts.QueueSize == 0 {
		opts.QueueSize = DefaultQueueSize
	}
	if opts.QueueSize < minQueueSize {
		faults = append(faults, fmt.Errorf("QueueSize %d: must be at least %d", opts.QueueSize, minQueueSize))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("natsstore: %w", errors.Join(faults...))
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	return newStore(nc, bucket, opts)
}

func newStore(nc *nats.Conn, bucket string, opts Options) (*Store, error) {
	s := &Store{nc: nc, opts: opts, bucket: bucket, stream: "KV_" + bucket, stored: "$KV." + bucket + "."}
	var err error
	switch {
	case opts.Domain != "":
		s.api = "$JS." + opts.Domain + ".API."
		s.js, err = jetstream.NewWithDomain(nc, opts.Domain)
	case opts.APIPrefix != "":
		s.api = strings.TrimSuffix(opts.APIPrefix, ".") + "."
		s.js, err = jetstream.NewWithAPIPrefix(nc, opts.APIPrefix)
	default:
		s.api = jetstream.DefaultAPIPrefix
		s.js, err = jetstream.New(nc)
	}
	if err != nil {
		return nil, fmt.Errorf("natsstore: Domain %q, APIPrefix %q: %w", opts.Domain, opts.APIPrefix, err)
	}
	s.put = s.stored
	if s.api != jetstream.DefaultAPIPrefix {
		// Across a domain's or an account's border records travel under the
		// API's prefix (nats.go, jetstream/kv.go, useJSPfx).
		s.put = s.api + s.stored
	}
	return s, nil
}

// Bucket returns the bucket's name.
func (s *Store) Bucket() string { return s.bucket }

// Close ends all watches and registrations and waits until the store's
// goroutine is gone, unless it is called by one of their functions. Get,
// CompareAndSwap and Offer still work afterwards, Watch and TakeOffers do not.
// Close may be called more than once.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	h := s.hub
	if h == nil {
		s.mu.Unlock()
		return
	}
	h.shutdown()
	own := h.onLoop()
	s.mu.Unlock()
	if !own {
		<-h.done
	}
}

// bounded gives ctx the store's default deadline if it has none.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.opts.Timeout)
}

// sendable reports why nothing can be sent now. What it refuses has certainly
// not left.
func (s *Store) sendable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: not sent: %w", store.ErrTransient, ctx.Err())
	case s.nc.IsClosed():
		return fmt.Errorf("%w: not sent: %w", store.ErrClosed, nats.ErrConnectionClosed)
	case !s.nc.IsConnected():
		// Sending now would leave the write to the reconnect buffer, which
		// delivers it when nobody wants it any more.
		return fmt.Errorf("%w: not sent: %w", store.ErrTransient, nats.ErrDisconnected)
	}
	return nil
}

// Get implements [store.Store] by a direct get, which any replica answers. From
// a bucket that refuses direct gets it reads by STREAM.MSG.GET, for which the
// user then needs permission (it covers all keys).
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	if !store.ValidKey(key) {
		return store.Entry{}, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if s.noDirect.Load() {
		return s.getIndirect(ctx, key)
	}
	e, err := s.getDirect(ctx, key)
	if err != nil && s.noDirect.Load() {
		return s.getIndirect(ctx, key)
	}
	return e, err
}

func (s *Store) getDirect(ctx context.Context, key string) (store.Entry, error) {
	subject := s.directSubject(key)
	m, before, err := s.request(ctx, subject, nil)
	if err == nil {
		var e store.Entry
		if e, err = directEntry(key, m); err == nil {
			return e, nil
		}
	}
	return store.Entry{}, s.readError(ctx, before, subject, err)
}

func (s *Store) getIndirect(ctx context.Context, key string) (store.Entry, error) {
	subject := s.api + "STREAM.MSG.GET." + s.stream
	m, before, err := s.request(ctx, subject, s.lastMessageRequest(key))
	if err == nil {
		var e store.Entry
		if e, err = indirectEntry(key, m); err == nil {
			return e, nil
		}
	}
	return store.Entry{}, s.readError(ctx, before, subject, err)
}

func (s *Store) directSubject(key string) string {
	return s.api + "DIRECT.GET." + s.stream + "." + s.stored + key
}

func (s *Store) lastMessageRequest(key string) []byte {
	return mustJSON(map[string]string{"last_by_subj": s.stored + key})
}

// mustJSON encodes what can always be encoded: maps and structs of strings and
// numbers.
func mustJSON(v any) []byte {
	b, _ := json.Marshal(v) //nolint:errchkjson // see above
	return b
}

// indirectEntry reads the answer to STREAM.MSG.GET.
func indirectEntry(key string, m *nats.Msg) (store.Entry, error) {
	var reply storedMessage
	err := apiReply(m, &reply)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return store.Entry{Key: key}, nil
	}
	if err != nil {
		return store.Entry{}, err
	}
	return reply.entry(key)
}

// request sends one request that changes nothing.
func (s *Store) request(ctx context.Context, subject string, body []byte) (*nats.Msg, sighting, error) {
	before := s.sighting()
	if !s.nc.IsConnected() && !s.nc.IsClosed() {
		return nil, before, nats.ErrDisconnected
	}
	ctx, release := s.attended(ctx, before, subject)
	defer release()
	m, err := s.nc.RequestWithContext(ctx, subject, body)
	return m, before, interrupted(ctx, err)
}

// Why attended ended a call before its time.
var (
	errInterrupted = errors.New("the connection broke during the call")
	errDenied      = errors.New("the user lacks a permission")
)

// shielded returns f for a goroutine that is not its caller's: a panic of it is
// reported.
func (s *Store) shielded(what string, f func()) func() {
	return func() {
		shield.Call(f, func(value any, stack []byte) { s.panicked(what, value, stack) })
	}
}

// panicked reports a panic.
func (s *Store) panicked(what string, value any, stack []byte) {
	log := s.opts.Logger
	if log == nil {
		log = slog.Default()
	}
	// Whatever the Logger does in its turn has nobody left to be told to.
	shield.Call(func() {
		log.Error("panic", "of", what, "value", shield.Value(value), "stack", string(stack), "bucket", s.bucket)
	}, func(any, []byte) {})
}

// attention is when a call that waits looks at its connection first. Each
// further look comes after twice as long, up to attentionMost: a thousand calls
// that wait, because everything is slow, must not contend for the connection
// with those that would end their wait.
const (
	attention     = 20 * time.Millisecond
	attentionMost = 16 * attention
)

// attended returns a context that ends when the connection breaks, or reports
// that the user may not publish to the subject or hear the answer. The client
// library would let the call wait for its deadline, though no answer will come.
func (s *Store) attended(parent context.Context, before sighting, subject string) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var look *time.Timer
	wait := attention // the looks come one after the other
	look = time.AfterFunc(time.Hour, s.shielded("a look at the connection", func() {
		switch {
		case !s.nc.IsConnected() || s.nc.Stats().Reconnects != before.reconnects:
			cancel(errInterrupted)
		case s.deniedSince(before, subject, s.inboxPrefix()) != nil:
			cancel(errDenied)
		case ctx.Err() == nil:
			wait = min(2*wait, attentionMost)
			look.Reset(wait)
		}
	}))
	look.Reset(attention)
	return ctx, func() {
		look.Stop()
		cancel(nil)
	}
}

// interrupted replaces the cancellation by which attended ended a call with its
// reason.
func interrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err != nil && (errors.Is(cause, errInterrupted) || errors.Is(cause, errDenied)) {
		return cause
	}
	return err
}

// CompareAndSwap implements [store.Store]. It repeats a write only while the
// server refuses to look at it because another write to the same key is being
// replicated.
func (s *Store) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := s.valid(w); err != nil {
		return 0, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, maxInFlightWait) {
		if err := s.sendable(ctx); err != nil {
			return 0, err
		}
		before := s.sighting()
		rev, err := s.publish(ctx, before, w)
		if err == nil {
			return rev, nil
		}
		if !errors.Is(classifyWrite(err), errInFlight) {
			return 0, s.writeError(ctx, before, w, err)
		}
		if !pause(ctx, wait) {
			return 0, fmt.Errorf("%w: key %q: %w: %w", store.ErrTransient, w.Key, errInFlight, err)
		}
	}
}

// publish sends the write once.
func (s *Store) publish(ctx context.Context, before sighting, w store.Write) (uint64, error) {
	ctx, release := s.attended(ctx, before, s.put+w.Key)
	defer release()
	ack, err := s.js.PublishMsg(ctx, s.message(w),
		jetstream.WithExpectLastSequencePerSubject(w.Expected),
		// After the bucket was deleted, another stream may have taken its
		// subjects in.
		jetstream.WithExpectStream(s.stream),
		// A repetition after "no response" could meet its own first attempt.
		jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, interrupted(ctx, err)
	}
	return ack.Sequence, nil
}

// maxInFlightWait bounds the waits for another write's replication, which takes
// about a millisecond; a stream leader cut off from its peers refuses for many
// seconds.
const maxInFlightWait = 32 * time.Millisecond

// pause waits for d, or reports false because ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (s *Store) valid(w store.Write) error {
	if !store.ValidKey(w.Key) {
		return fmt.Errorf("%w: key %q", store.ErrInvalid, w.Key)
	}
	if limit := s.nc.MaxPayload(); limit > 0 && int64(len(w.Value)) > limit {
		return fmt.Errorf("%w: key %q: a value of %d bytes, and the server takes messages of at most %d",
			store.ErrInvalid, w.Key, len(w.Value), limit)
	}
	return nil
}

func (s *Store) message(w store.Write) *nats.Msg {
	m := nats.NewMsg(s.put + w.Key)
	m.Data = w.Value
	if w.Tombstone {
		m.Header.Set(hdrOperation, opDelete)
	}
	return m
}

// writeError classifies and explains a failed write, looking a second time
// where the answer alone does not tell.
func (s *Store) writeError(ctx context.Context, before sighting, w store.Write, err error) error {
	class := classifyWrite(err)
	switch {
	case errors.Is(class, store.ErrConflict):
		s.suspect(w.Key)
	case errors.Is(class, errNoStream):
		s.suspect(w.Key)
		return s.diagnose(ctx, err)
	case errors.Is(class, errStoreFailed):
		class = s.storeFailure(ctx, w)
	case errors.Is(class, errOtherStream):
		return fmt.Errorf("%w: bucket %q: %w: a stream other than %s takes in what is published to %s:"+
			" remove that subject from it, and make the bucket again", store.ErrPermanent, s.bucket, err, s.stream, s.put+w.Key)
	}
	if errors.Is(class, store.ErrUnknown) && ended(err) {
		if denied := s.deniedSince(before, s.put+w.Key); denied != nil {
			return fmt.Errorf("%w: the user may not publish to %s: %w", store.ErrPermanent, s.put+w.Key, denied)
		}
		if denied := violation(s.nc.LastError(), s.inboxPrefix()); denied != nil {
			// The write itself was not denied, only our hearing of it.
			err = fmt.Errorf("%w (the user may not subscribe to replies: %w)", err, denied)
		}
	}
	return fmt.Errorf("%w: bucket %q, key %q: %w", class, s.bucket, w.Key, err)
}

// storeFailure tells a bucket that is full, which refuses for certain, from a
// stream that could not store for another reason. With several replicas it
// cannot be told: the write may have been stored by the peers of a leader that
// was being shut down, and be what filled the bucket.
func (s *Store) storeFailure(ctx context.Context, w store.Write) error {
	info, err := s.info(ctx)
	if err != nil || info.Config.Discard != jetstream.DiscardNew || info.Config.Replicas > 1 {
		return store.ErrUnknown
	}
	c, st := info.Config, info.State
	full := c.MaxMsgs > 0 && st.Msgs >= uint64(c.MaxMsgs) ||
		c.MaxBytes > 0 && st.Bytes+uint64(len(s.stored)+len(w.Key)+len(w.Value)+recordOverhead) > uint64(c.MaxBytes)
	if !full {
		return store.ErrUnknown
	}
	return store.ErrPermanent
}

// recordOverhead is about what a stored record needs besides subject and value:
// the frame of a file store's record and the headers, which are stored too
// (nats-server, filestore.go, fileStoreMsgSizeRaw).
const recordOverhead = 192

// info asks for the stream's configuration and state.
func (s *Store) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	m, _, err := s.request(ctx, s.infoSubject(), nil)
	if err != nil {
		return nil, err
	}
	info := new(jetstream.StreamInfo)
	if err := apiReply(m, info); err != nil {
		return nil, err
	}
	return info, nil
}

func (s *Store) infoSubject() string { return s.api + "STREAM.INFO." + s.stream }

func (s *Store) createSubject() string { return s.api + "STREAM.CREATE." + s.stream }

// diagnose finds out why no stream answered: the bucket is missing, or of the
// wrong shape (permanent), or has no leader at the moment (transient). In all
// cases nothing was applied: without a responder no stream got the message.
func (s *Store) diagnose(ctx context.Context, cause error) error {
	info, err := s.info(ctx)
	switch {
	case err == nil:
		return s.explain(info, cause)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return s.missing(ctx, cause)
	case errors.Is(classifyRead(err), store.ErrPermanent):
		return fmt.Errorf("%w: bucket %q: %w", classifyRead(err), s.bucket, err)
	default:
		return fmt.Errorf("%w: bucket %q: JetStream does not answer: %w", store.ErrTransient, s.bucket, errors.Join(cause, err))
	}
}

func (s *Store) explain(info *jetstream.StreamInfo, cause error) error {
	if err := s.checkSubjects(&info.Config); err != nil {
		return err
	}
	if !info.Config.AllowDirect {
		s.noDirect.Store(true)
	}
	return fmt.Errorf("%w: bucket %q exists and does not answer, its stream may be without a leader: %w",
		store.ErrTransient, s.bucket, cause)
}

// missing makes the bucket where the options say so.
func (s *Store) missing(ctx context.Context, cause error) error {
	if s.opts.Create == nil {
		return fmt.Errorf("%w: bucket %q does not exist (make it with BucketAutoCreate, `leader bucket create --bucket %s` or `nats kv add %s`): %w",
			store.ErrPermanent, s.bucket, s.bucket, s.bucket, cause)
	}
	if err := s.create(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: bucket %q was missing and has been made: %w", store.ErrTransient, s.bucket, cause)
}

func (s *Store) create(ctx context.Context) error {
	cfg := *s.opts.Create
	cfg.Bucket = s.bucket
	return EnsureBucket(ctx, s.js, cfg)
}
