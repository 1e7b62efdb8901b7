package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

const (
	// readsMost is how often a read is made that a copy answers. By the pace of
	// reads that takes about a second.
	readsMost = 40
	// readsAlone is how many reads in a row are believed to find nothing if the
	// stream's leader does not answer.
	readsAlone = 8
	// askingTime is for how long the stream's leader is waited for about one of
	// them.
	askingTime = time.Second
)

// errStale: the answer came from a replica, or a mirror, that lags.
var errStale = errors.New("a copy of the stream that lags answers the read")

// noteCopy warns of a mirror that answers, once, if there is a Logger.
func (c *client) noteCopy(err error) {
	if copied, is := errors.AsType[wire.CopyError](err); is && c.known.copied(copied.Stream) && c.opts.Logger != nil {
		// Beside the caller, who may have the lock, since a handler may call the
		// store.
		go c.shielded("a warning", func() {
			c.opts.Logger.Warn("a mirror answers reads of the bucket", "stream", copied.Stream, "bucket", c.names.Bucket, "meaning", c.mirrored(copied.Stream))
		})()
	}
}

// mirrored explains the effect of a mirror and the remedy. The server has each
// mirror of a stream with allow_direct answer the stream's reads, whatever the
// mirror's configuration is (nats-server, stream.go, checkStreamCfg).
func (c *client) mirrored(stream string) string {
	return fmt.Sprintf("Stream %s mirrors bucket %q and answers reads of it, with records of any age; they are read again until the bucket itself answers."+
		" Replace the mirror by a stream with a source, which answers none: `nats stream rm %s`, then `nats stream add %s --source %s`.",
		stream, c.names.Bucket, stream, stream, c.names.Stream)
}

// A reader reads a key once.
type reader = func(ctx context.Context, key string) (store.Entry, error)

// get reads a key by a direct get, which any replica and any mirror answers. An
// answer of another stream counts as none, and so does one that shows less than
// is known, or nothing, if the stream's leader contradicts it.
func (c *client) get(ctx context.Context, key string, read reader) (store.Entry, error) {
	alone := 0
	return c.readUntil(ctx, key, read, func(ctx context.Context, e store.Entry) bool {
		return e.Revision >= max(c.known.least(key), 1) || c.noDirect.Load() || c.confirmed(ctx, e, &alone)
	})
}

// readUntil reads a key until the stream itself answers what is believed.
func (c *client) readUntil(ctx context.Context, key string, read reader, believed func(context.Context, store.Entry) bool) (store.Entry, error) {
	if !store.ValidKey(key) {
		return store.Entry{}, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	pace := backoff.Policy{Initial: time.Millisecond, Max: 32 * time.Millisecond}
	for n := 1; ; n++ {
		e, err := read(ctx, key)
		switch _, copied := errors.AsType[wire.CopyError](err); {
		case err == nil && believed(ctx, e):
			return e, nil
		case err == nil:
			err = fmt.Errorf("%w: bucket %q, key %q: %w", store.ErrTransient, c.names.Bucket, key, errStale)
		case !copied:
			return store.Entry{}, err
		}
		if n == readsMost || !backoff.Sleep(ctx, pace.Steady(n)) {
			return store.Entry{}, err
		}
	}
}

// confirmed asks the stream's leader whether to believe an answer that shows
// less than is known, or nothing. If the leader does not answer, several such
// answers in a row are believed.
func (c *client) confirmed(ctx context.Context, e store.Entry, alone *int) bool {
	if *alone == 0 && !c.mute.Load() {
		asking, cancel := context.WithTimeout(ctx, askingTime)
		defer cancel()
		m, before, err := c.ask(asking, c.names.Info(), c.names.StateRequest(e.Key))
		if ended(err) && c.denied(err, before, c.names.Info()) != nil {
			c.mute.Store(true)
		}
		if err == nil {
			info := new(jetstream.StreamInfo)
			if wire.Answer(m, info) == nil {
				c.known.of(info.Created)
				return c.agrees(c.names.State(info), e)
			}
		}
	}
	*alone++
	return *alone >= readsAlone
}

// agrees reports whether the stream's leader, which has that state, may have
// answered so.
func (c *client) agrees(state wire.State, e store.Entry) bool {
	least := c.known.least(e.Key)
	switch {
	case e.Revision == 0 && state.Has(e.Key):
		return false
	case e.Revision == 0, state.LastSequence < least: // erased, or the stream lost what it had named
		c.known.forget(e.Key)
		return true
	}
	return e.Revision >= least
}

// probe asks the stream's leader for the revision of a key that the user may
// only read. It sends a write of the other key, which the leader refuses. A
// server that does not know such a condition names the other key's revision.
func (c *client) probe(ctx context.Context, written, read string) {
	before := c.connReport()
	if _, err := c.send(ctx, before, c.names.Probe(written, read)); err != nil {
		if revision, ok := wire.Named(err); ok && (revision == 0 || revision != c.known.least(written)) {
			c.known.name(read, revision)
		}
	}
}
