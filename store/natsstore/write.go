package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// CompareAndSwap implements [store.Store]. It repeats a write only while the
// server refuses to look at it because another write to the same key is being
// replicated.
func (s *Store) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := s.valid(w); err != nil {
		return 0, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	for attempt := 1; ; attempt++ {
		// Before each attempt: what is written to a connection that has gone
		// waits in its buffer, and may be applied long after this call.
		if err := s.sendable(ctx); err != nil {
			return 0, err
		}
		before := s.connReport()
		rev, err := s.publish(ctx, before, w)
		if err == nil {
			return rev, nil
		}
		if !errors.Is(classifyWrite(err), errInFlight) {
			return 0, s.writeError(ctx, before, w, err)
		}
		if !backoff.Sleep(ctx, inFlightDelay(attempt)) {
			return 0, errStillInFlight(w, err)
		}
	}
}

// publish sends the write once. A repetition after "no responders" could meet
// its own first attempt. By default the publish functions of the client library
// make up to two repetitions.
func (c *client) publish(ctx context.Context, before attend.Report, w store.Write) (uint64, error) {
	return c.send(ctx, before, c.names.Write(w))
}

// errStillInFlight: the server never looked at the write, while there was time.
func errStillInFlight(w store.Write, err error) error {
	return fmt.Errorf("%w: key %q: %w: %w", store.ErrTransient, w.Key, errInFlight, err)
}

// inFlightDelay returns the wait for another write's replication, which takes
// about a millisecond. It grows, since a stream leader that is cut off from its
// peers refuses for many seconds.
func inFlightDelay(attempt int) time.Duration {
	return backoff.Policy{Initial: time.Millisecond, Max: 32 * time.Millisecond}.Steady(attempt)
}

func (c *client) valid(w store.Write) error {
	if !store.ValidKey(w.Key) {
		return fmt.Errorf("%w: key %q", store.ErrInvalid, w.Key)
	}
	if limit := c.nc.MaxPayload(); limit > 0 && int64(len(w.Value)) > limit {
		return fmt.Errorf("%w: key %q: a value of %d bytes, and the server takes messages of at most %d",
			store.ErrInvalid, w.Key, len(w.Value), limit)
	}
	return nil
}

// writeError classifies and explains a failed write, and asks the server again
// if the answer alone does not decide. A refusal also shows that the register
// is not as the caller believed, so its watches must read it.
func (s *Store) writeError(ctx context.Context, before attend.Report, w store.Write, err error) error {
	class := classifyWrite(err)
	switch {
	case errors.Is(class, store.ErrConflict):
		named, _ := wire.Named(err)
		s.known.name(w.Key, named)
		s.suspect(w.Key, named)
	case errors.Is(class, errNoStream):
		s.suspect(w.Key, 0)
		return s.diagnose(ctx, err)
	case errors.Is(class, errStoreFailed):
		class = s.storeFailure(ctx, w)
	case errors.Is(class, errOtherStream):
		return fmt.Errorf("%w: bucket %q: %w: a stream other than %s takes in what is published to %s:"+
			" remove that subject from it, and make the bucket again", store.ErrPermanent, s.names.Bucket, err, s.names.Stream, s.names.Put+w.Key)
	}
	if errors.Is(class, store.ErrUnknown) && ended(err) {
		// The server drops what a user may not publish before any stream gets
		// it: nothing was applied, for certain.
		if denied := s.denied(err, before, s.names.Put+w.Key); denied != nil {
			return fmt.Errorf("%w: the user may not publish to %s: %w", store.ErrPermanent, s.names.Put+w.Key, denied)
		}
		if denied := s.unheard(s.nc.LastError()); denied != nil {
			// The write itself was not denied, only our hearing of it.
			err = fmt.Errorf("%w (the user may not subscribe to replies: %w)", err, denied)
		}
	}
	return fmt.Errorf("%w: bucket %q, key %q: %w", class, s.names.Bucket, w.Key, err)
}

// storeFailure gives the class of a write that the stream could not store. A
// bucket that is full refuses for certain; any other reason leaves the outcome
// unknown. So do several replicas: the write may have been stored by the peers
// of a leader that was being shut down, and be what filled the bucket.
func (c *client) storeFailure(ctx context.Context, w store.Write) error {
	info, err := c.info(ctx)
	if err != nil || info.Config.Discard != jetstream.DiscardNew || info.Config.Replicas > 1 {
		return store.ErrUnknown
	}
	limits, st := info.Config, info.State
	needed := uint64(len(c.names.Stored) + len(w.Key) + len(w.Value) + recordOverhead)
	full := limits.MaxMsgs > 0 && st.Msgs >= uint64(limits.MaxMsgs) ||
		limits.MaxBytes > 0 && st.Bytes+needed > uint64(limits.MaxBytes)
	if !full {
		return store.ErrUnknown
	}
	return store.ErrPermanent
}

// recordOverhead is about what a stored record needs in addition to subject and
// value: the frame of a file store's record and the headers, which are stored
// too (nats-server, filestore.go, fileStoreMsgSizeRaw).
const recordOverhead = 192
