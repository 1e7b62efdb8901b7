package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// BucketConfig names the tasks of a group in JetStream, and configures how a
// missing bucket is made.
type BucketConfig struct {
	// Bucket is the name of the key-value bucket: letters, digits, - and _.
	// Several groups may share one. Required. It must differ from the
	// elections' bucket.
	Bucket string
	// Group is the group of the tasks. Required.
	Group string
	// Create makes the bucket if there is none, or changes it where it differs.
	Create bool
	// Replicas is how many servers keep it. Default: 1.
	Replicas int
	// Memory keeps it in memory, where a restart of its server loses every
	// task. Without it a bucket that is kept so, or whose writes are
	// acknowledged before they are in a file, is refused.
	Memory bool
	// Keep is how long the record of a finished task is kept, for Look and for
	// Submit to be idempotent; whole seconds. It counts for tasks that this
	// program finishes. Default: an hour. Negative: for ever.
	Keep time.Duration
}

// DefaultKeep is how long records of finished tasks are kept if the
// BucketConfig sets no time.
const DefaultKeep = time.Hour

// longestKeep is a century. The server adds the TTL to the time of the record,
// in nanoseconds, and what exceeds them has expired at once.
const longestKeep = 100 * 365 * 24 * time.Hour

// Bucket is a [Store] in a key-value bucket of NATS JetStream. Each task is a
// key (t.<group>.<id>) whose value is JSON, each change a compare-and-swap on
// its revision. The server removes finished tasks by itself.
type Bucket struct {
	js     jetstream.JetStream
	nc     *nats.Conn
	cfg    BucketConfig
	prefix string // of the subjects of tasks
	mark   string // the subject of the checkpoint
	s      jetstream.Stream
	writes jetstream.JetStream // publishes, and nothing else
}

var _ Store = (*Bucket)(nil)

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// OpenBucket returns the tasks of a group. Close releases what it takes of the
// connection of js, which stays the caller's.
func OpenBucket(ctx context.Context, js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	switch {
	case !bucketName.MatchString(cfg.Bucket):
		return nil, fmt.Errorf("%w: Bucket %.200q: must be letters, digits, - and _", ErrInvalid, cfg.Bucket)
	case !validGroup(cfg.Group):
		return nil, fmt.Errorf("%w: Group %.200q: must be names with dots between", ErrInvalid, cfg.Group)
	case cfg.Replicas < 0:
		return nil, fmt.Errorf("%w: Replicas %d: must not be negative", ErrInvalid, cfg.Replicas)
	}
	if cfg.Keep == 0 {
		cfg.Keep = DefaultKeep
	}
	cfg.Keep = min(cfg.Keep, longestKeep)
	writes, err := jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(ackFor), jetstream.WithPublishAsyncMaxPending(math.MaxInt))
	if err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	b := &Bucket{
		js: js, nc: js.Conn(), cfg: cfg, writes: writes,
		prefix: "$KV." + cfg.Bucket + ".t." + cfg.Group + ".", mark: "$KV." + cfg.Bucket + ".m." + cfg.Group,
	}
	if cfg.Create {
		if err := b.create(ctx); err != nil {
			return nil, err
		}
	}
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Bucket) stream() string { return "KV_" + b.cfg.Bucket }

// create makes the stream. Its first revision is the time in microseconds, so
// the revisions of a bucket that is made again stay above the earlier bucket's.
func (b *Bucket) create(ctx context.Context) error {
	c := jetstream.StreamConfig{
		Name: b.stream(), Subjects: []string{"$KV." + b.cfg.Bucket + ".>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		Replicas: max(b.cfg.Replicas, 1), AllowMsgTTL: true, DenyDelete: true, FirstSeq: uint64(time.Now().UnixMicro()),
		Description: "tasks of leader/tasks",
	}
	if b.cfg.Memory {
		c.Storage = jetstream.MemoryStorage
	}
	_, err := b.js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		var s jetstream.Stream
		if s, err = b.js.Stream(ctx, b.stream()); err == nil {
			c.FirstSeq = s.CachedInfo().Config.FirstSeq
			_, err = b.js.UpdateStream(ctx, c)
		}
	}
	if err != nil {
		return fmt.Errorf("tasks: making bucket %q: %w", b.cfg.Bucket, err)
	}
	return nil
}

// check refuses a bucket in which tasks would get lost.
func (b *Bucket) check(ctx context.Context) error {
	s, err := b.js.Stream(ctx, b.stream())
	if err != nil {
		return fmt.Errorf("tasks: bucket %q: %w", b.cfg.Bucket, err)
	}
	b.s = s
	info := s.CachedInfo()
	// Package jetstream uses this to decide which server it asks. A replica
	// that lags has not seen a new task, which a leader would then take for a
	// deleted one.
	info.Config.AllowDirect = false
	c := info.Config
	switch {
	case c.MaxAge != 0 || c.Discard == jetstream.DiscardOld && (c.MaxBytes > 0 || c.MaxMsgs > 0):
		return fmt.Errorf("%w: bucket %q drops records by age or for room: open tasks would be lost", ErrInvalid, b.cfg.Bucket)
	case !b.cfg.Memory && c.Storage == jetstream.MemoryStorage:
		return fmt.Errorf("%w: bucket %q is kept in memory: a restart of its server would lose every task: use one in files, or set Memory", ErrInvalid, b.cfg.Bucket)
	case !b.cfg.Memory && c.PersistMode == jetstream.AsyncPersistMode:
		return fmt.Errorf("%w: bucket %q acknowledges writes before they are in a file (persist_mode async): the death of its server would lose tasks:"+
			" use the default mode, or set Memory", ErrInvalid, b.cfg.Bucket)
	case !c.AllowMsgTTL && b.cfg.Keep > 0:
		return fmt.Errorf("%w: bucket %q does not allow TTLs of messages, by which finished tasks go: set allow_msg_ttl, or Keep to a negative value", ErrInvalid, b.cfg.Bucket)
	case c.MaxMsgsPerSubject != 1 && b.cfg.Keep > 0:
		return fmt.Errorf("%w: bucket %q keeps earlier records of a key (history): when the record of a finished task is removed, the record before it would count again: set max_msgs_per_subject to 1, or Keep to a negative value", ErrInvalid, b.cfg.Bucket)
	}
	return nil
}

// Close ends the writes that are on their way: their outcome is unknown. The
// store is not used afterwards.
func (b *Bucket) Close() { b.writes.CleanupPublisher() }

// The headers of a record.
const (
	headerTerm = "Leader-Tasks-Term" // the number of the term that wrote it
	headerTTL  = "Nats-TTL"
	headerLast = "Nats-Expected-Last-Subject-Sequence"
)

// ackFor is how long a server has to acknowledge a write. It may be short: a
// write whose outcome is not known is followed by a read.
const ackFor = 2 * time.Second

// Write implements [Store].
func (b *Bucket) Write(w Write, done func(uint64, error)) {
	data, err := json.Marshal(&w.Record)
	if err != nil {
		done(0, fmt.Errorf("%w: %w", ErrInvalid, err))
		return
	}
	h := nats.Header{headerLast: {strconv.FormatUint(w.Expected, 10)}}
	if w.Record.Term != 0 {
		h[headerTerm] = []string{strconv.FormatUint(w.Record.Term, 10)}
	}
	if w.Record.State.Finished() && b.cfg.Keep > 0 {
		h[headerTTL] = []string{strconv.Itoa(int(max(b.cfg.Keep, time.Second)/time.Second)) + "s"}
	}
	answer, err := b.writes.PublishMsgAsync(&nats.Msg{Subject: b.prefix + w.ID, Header: h, Data: data})
	if err != nil {
		done(0, fmt.Errorf("tasks: writing %q: %w", w.ID, err))
		return
	}
	go func() {
		select {
		case ack := <-answer.Ok():
			done(ack.Sequence, nil)
		case err := <-answer.Err():
			done(0, writeError(w.ID, err))
		}
	}()
}

// writeError returns the error of a write that the server did not accept, or
// may not have accepted. The server has two codes for a write whose condition
// does not hold: a stream with replicas returns the second, also while another
// write on the subject is under way.
func writeError(id string, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return fmt.Errorf("%w: %q: %w", ErrConflict, id, err)
	}
	return fmt.Errorf("tasks: writing %q: %w", id, err)
}

// Read implements [Store]. It asks the stream's leader, and no replica. Of a
// key that was deleted by hand a marker stays.
func (b *Bucket) Read(ctx context.Context, id string) (Entry, error) {
	m, err := b.s.GetLastMsgForSubject(ctx, b.prefix+id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("tasks: reading %q: %w", id, err)
	}
	e, err := entry(id, m.Sequence, m.Header, m.Data)
	if err == nil && e.Deleted {
		err = fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return e, err
}

// entry returns the record at a key. A submitter may have written anything
// there; the error matches ErrInvalid.
func entry(id string, rev uint64, h nats.Header, data []byte) (e Entry, err error) {
	e = Entry{ID: id, Revision: rev}
	if h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != "" {
		e.Deleted = true
		return e, nil
	}
	if !ValidName(id) {
		err = errors.New(nameRule)
	} else if err = json.Unmarshal(data, &e.Record); err == nil {
		err = e.Record.Validate()
	}
	if err != nil {
		e.Record = wire.Record{}
		err = fmt.Errorf("%w: the record of task %.200q: %w", ErrInvalid, id, err)
	}
	return e, err
}

// Checkpoint implements [Store]. It expects no revision: each mark that was
// ever true stays true, since the records of open tasks only rise.
func (b *Bucket) Checkpoint(ctx context.Context, revision uint64) error {
	_, err := b.js.Publish(ctx, b.mark, strconv.AppendUint(nil, revision, 10))
	return err
}

// from returns where a watch begins.
func (b *Bucket) from(ctx context.Context) (uint64, error) {
	m, err := b.s.GetLastMsgForSubject(ctx, b.mark)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// Anything but a number was written by somebody else: read all records.
	mark, err := strconv.ParseUint(string(m.Data), 10, 64)
	if err != nil || mark > m.Sequence {
		return 0, nil //nolint:nilerr // see above
	}
	return mark, nil
}

// beginFor is how long the beginning of a watch may take. A question may have
// been lost with the connection; it is asked again.
const beginFor = 2 * time.Second

// errReconnected ends a watch, which is to be started again.
var errReconnected = errors.New("tasks: the connection was lost")

// Watch implements [Store].
func (b *Bucket) Watch(ctx context.Context, w Watch) error {
	// A consumer may take many seconds to notice that its server was away.
	again := b.nc.StatusChanged(nats.CONNECTED)
	defer b.nc.RemoveStatusListener(again)
	begin, cancel := context.WithTimeout(ctx, beginFor)
	defer cancel()
	from, err := b.from(begin)
	if err != nil {
		return fmt.Errorf("tasks: reading the checkpoint: %w", err)
	}
	c := jetstream.OrderedConsumerConfig{FilterSubjects: []string{b.prefix + "*"}}
	if from > 0 {
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	consumer, err := b.js.OrderedConsumer(begin, b.stream(), c)
	if err != nil {
		return fmt.Errorf("tasks: watching: %w", err)
	}
	t := &telling{w: w, at: max(from, 1) - 1}
	if consumer.CachedInfo().NumPending == 0 {
		t.complete()
	}
	own := strconv.FormatUint(w.Term, 10)
	failed := make(chan error, 1)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return
		}
		t.tell(b.told(m, meta.Sequence.Stream, own))
		if meta.NumPending == 0 {
			t.complete()
		}
	}, jetstream.PullExpiry(5*time.Second), jetstream.PullHeartbeat(500*time.Millisecond), jetstream.PullMaxMessages(2000),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if errors.Is(err, jetstream.ErrNoHeartbeat) {
				return // it starts again by itself
			}
			select {
			case failed <- err:
			default: // one is enough
			}
		}))
	if err != nil {
		return fmt.Errorf("tasks: watching: %w", err)
	}
	defer func() { consuming.Stop(); <-consuming.Closed() }()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			return errReconnected
		case err := <-failed:
			return fmt.Errorf("tasks: watching: %w", err)
		case <-look.C:
			if b.toldAll(ctx, t) {
				look.Stop()
			}
		}
	}
}

// lookEvery is how often a watch whose current state is not complete looks
// whether there is more to come.
const lookEvery = time.Second

// toldAll reports whether the current state has been delivered. The message
// that reports no pending records may never come: the records that were pending
// when the ones before were sent may expire, or be deleted, before their turn.
func (b *Bucket) toldAll(ctx context.Context, t *telling) bool {
	at, present := t.progress()
	if present {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, beginFor)
	defer cancel()
	_, err := b.s.GetMsg(ctx, at+1, jetstream.WithGetMsgSubject(b.prefix+"*"))
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return false
	}
	t.complete()
	return true
}

// A telling holds how far a watch has come.
type telling struct {
	w Watch

	mu      sync.Mutex
	at      uint64 // the revision of the last delivery
	present bool   // the current state is complete
}

func (t *telling) tell(e Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.w.Deliver(e)
	t.at = e.Revision
}

// complete reports that the current state has been delivered, once.
func (t *telling) complete() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.present {
		t.present = true
		t.w.Present()
	}
}

func (t *telling) progress() (at uint64, present bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at, t.present
}

// told returns the entry that a message delivers to the watch.
func (b *Bucket) told(m jetstream.Msg, rev uint64, own string) Entry {
	id, h := strings.TrimPrefix(m.Subject(), b.prefix), m.Headers()
	if t := h[headerTerm]; len(t) == 1 && t[0] == own {
		return Entry{ID: id, Revision: rev, Own: true}
	}
	e, err := entry(id, rev, h, m.Data())
	e.Invalid = err
	return e
}
