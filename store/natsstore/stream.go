package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// info asks for the bucket's configuration and state, for a caller whose answer
// must be younger than its question.
func (c *client) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	_, info, err := c.askInfo(ctx)
	return info, err
}

// sharedInfo is info that many may ask for at once. Hundreds of elections that
// one process began each asked for it, twice, and on a busy machine held each
// other up for minutes.
//
// The question is sent after the call. An election asks for the bucket's age
// after its claim, and the answer to an earlier question may be the age of a
// bucket that is gone.
func (c *client) sharedInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	return c.describing.since(ctx, func() (bool, *jetstream.StreamInfo, error) { return c.askInfo(ctx) })
}

// askInfo also reports whether the other callers who share the question get the
// same outcome. A question that ends without an answer, perhaps because its
// caller's context ends, is not shared, except for a missing permission.
func (c *client) askInfo(ctx context.Context) (answered bool, info *jetstream.StreamInfo, err error) {
	m, _, err := c.ask(ctx, c.names.Info(), nil)
	if err != nil {
		return errors.Is(err, attend.ErrDenied), nil, err
	}
	info = new(jetstream.StreamInfo)
	if err := wire.Answer(m, info); err != nil {
		return true, nil, err
	}
	return true, info, nil
}

// diagnose finds out why no stream answered: the bucket is missing, or of the
// wrong shape (permanent), or has no leader at the moment (transient). In all
// cases nothing was applied: without a responder no stream got the message.
func (c *client) diagnose(ctx context.Context, cause error) error {
	info, err := c.info(ctx)
	switch {
	case err == nil:
		return c.explain(info, cause)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return c.missing(ctx, cause)
	case errors.Is(classifyRead(err), store.ErrPermanent):
		return fmt.Errorf("%w: bucket %q: %w", classifyRead(err), c.names.Bucket, err)
	default:
		return fmt.Errorf("%w: bucket %q: JetStream does not answer: %w", store.ErrTransient, c.names.Bucket, errors.Join(cause, err))
	}
}

// explain returns why an existing bucket does not answer. A refusal of direct
// gets shows here: the server then has no subscription for them, so that a read
// ends as if there were no stream.
func (c *client) explain(info *jetstream.StreamInfo, cause error) error {
	if err := c.checkSubjects(&info.Config); err != nil {
		return err
	}
	if !info.Config.AllowDirect {
		c.noDirect.Store(true)
	}
	return fmt.Errorf("%w: bucket %q exists and does not answer, its stream may be without a leader: %w",
		store.ErrTransient, c.names.Bucket, cause)
}

// missing makes the bucket if the options request it. It returns an error even
// then, though a transient one: the call that found the bucket missing has had
// no effect, and its caller repeats it.
func (c *client) missing(ctx context.Context, cause error) error {
	if c.opts.Create == nil {
		return fmt.Errorf("%w: bucket %q does not exist (make it with BucketAutoCreate or `leader bucket create --bucket %s`): %w",
			store.ErrPermanent, c.names.Bucket, c.names.Bucket, cause)
	}
	if err := c.create(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: bucket %q was missing and has been made: %w", store.ErrTransient, c.names.Bucket, cause)
}

// create makes the bucket of the store's name. It works on a copy, since the
// options are the caller's.
func (c *client) create(ctx context.Context) error {
	cfg := *c.opts.Create
	cfg.Bucket, cfg.reached = c.names.Bucket, c.newest.Load()
	return EnsureBucket(ctx, c.js, cfg)
}

// checkSubjects refuses a stream in which writes do not arrive under the very
// subject that reads ask for. A mirror has no subjects; Check refuses it for
// what it is.
func (c *client) checkSubjects(config *jetstream.StreamConfig) error {
	if config.Mirror != nil || slices.Contains(config.Subjects, c.names.Stored+">") {
		return nil
	}
	return fmt.Errorf("%w: stream %s stores the subjects %q and not %s>: it is not a key-value bucket, use another name",
		store.ErrPermanent, c.names.Stream, config.Subjects, c.names.Stored)
}

// infoOrCreate is info, but makes a missing bucket first if the options request
// it.
func (c *client) infoOrCreate(ctx context.Context) (*jetstream.StreamInfo, error) {
	info, err := c.sharedInfo(ctx)
	if c.opts.Create == nil || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return info, err
	}
	if err := c.create(ctx); err != nil {
		return nil, err
	}
	return c.sharedInfo(ctx)
}

// checkError explains a failure of infoOrCreate. The person who starts an
// election reads it, so it names what to change. A failure that may pass by
// itself is transient, since an election that starts beside its servers is to
// wait for them.
func (c *client) checkError(ctx context.Context, before attend.Report, err error) error {
	switch {
	case store.Classify(err) != store.Unknown:
		return err // of EnsureBucket
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return c.missing(ctx, err)
	case errors.Is(classifyRead(err), errNoStream) && c.withoutJetStream():
		return fmt.Errorf("%w: bucket %q: the server %s has no JetStream: start it with nats-server -js (jetstream {} in its configuration),"+
			" or name the JetStream domain if that is behind a leaf node: %w", store.ErrPermanent, c.names.Bucket, c.nc.ConnectedUrlRedacted(), err)
	case errors.Is(classifyRead(err), errNoStream):
		return fmt.Errorf("%w: bucket %q: JetStream does not answer; it may be disabled on this server or account, or starting: %w",
			store.ErrTransient, c.names.Bucket, err)
	}
	return c.readError(ctx, before, c.names.Info(), err)
}

// withoutJetStream reports whether a server outside of a cluster reported, on
// connecting, that it has no JetStream. Elsewhere silence may pass: another
// server of a cluster, or the one behind a leaf node or an import, may answer
// yet.
func (c *client) withoutJetStream() bool {
	has, _ := c.nc.ConnectedServerJetStream()
	return c.nc.IsConnected() && !has && c.nc.ConnectedClusterName() == "" && c.names.API == jetstream.DefaultAPIPrefix
}
