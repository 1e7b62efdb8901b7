package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// Error codes of the server (nats-server, server/errors.json) that this package
// acts on and that nats.go does not name.
const (
	codeAccountResources   jetstream.ErrorCode = 10002
	codeNoPeers            jetstream.ErrorCode = 10005
	codeClusterUnavailable jetstream.ErrorCode = 10008
	codeClusterNotLeader   jetstream.ErrorCode = 10009
	codeNoResources        jetstream.ErrorCode = 10023
	codeMemoryExceeded     jetstream.ErrorCode = 10028
	codeStorageExceeded    jetstream.ErrorCode = 10047
	codeNotMatch           jetstream.ErrorCode = 10060
	codeReplicasNotHere    jetstream.ErrorCode = 10074
	codeStoreFailed        jetstream.ErrorCode = 10077
	codeHeaderTooLarge     jetstream.ErrorCode = 10097
	codeSealed             jetstream.ErrorCode = 10109
	codeRollupDenied       jetstream.ErrorCode = 10111
)

// An outcome of a publish that is not yet one of the store's.
var (
	// errInFlight: another write to the key is being replicated; the server
	// looked no further at this one (jetstream_batching.go,
	// expectedPerSubjectInProcess).
	errInFlight = errors.New("another write to the key is in flight")
	// errNoStream: no stream listens on the subject just now, so none got the
	// message.
	errNoStream = errors.New("no stream answers")
	// errStoreFailed: the stream could not store the message. At one replica,
	// and at a limit, that is a refusal; a replicated stream whose leader is
	// being shut down says the same of a write that its peers have stored.
	errStoreFailed = errors.New("the stream did not store the message")
	// errOtherStream: the stream that got the message is not the bucket's.
	errOtherStream = errors.New("the message went to another stream")
)

// classifyWrite gives the class of a failed publish: one of the sentinels of
// package store, or of the four above, which need a second look. Only an
// explicit refusal is a proof that nothing was stored; all else is unknown.
func classifyWrite(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		return classifyRefusal(api.ErrorCode)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return errNoStream
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return store.ErrTransient
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
		return store.ErrInvalid
	case errors.Is(err, nats.ErrHeadersNotSupported), errors.Is(err, nats.ErrConnectionDraining):
		return store.ErrPermanent
	default:
		// Also ErrConnectionClosed and ErrDisconnected: they end a call whose
		// message is already out.
		return store.ErrUnknown
	}
}

// classifyRefusal classifies the codes with which a stream answers a publish
// (stream.go, processJetStreamMsg; jetstream_batching.go,
// checkMsgHeadersPreClusteredProposal). Each of them but 10077 is given before
// the message is stored or proposed.
func classifyRefusal(code jetstream.ErrorCode) error {
	switch code {
	case jetstream.JSErrCodeStreamWrongLastSequence:
		return store.ErrConflict
	case jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return errInFlight
	case codeStoreFailed:
		return errStoreFailed
	case codeClusterUnavailable, codeClusterNotLeader, codeNoResources:
		return store.ErrTransient
	case jetstream.JSErrCodeStreamMessageExceedsMaximum, codeHeaderTooLarge:
		return store.ErrInvalid
	case codeAccountResources, codeMemoryExceeded, codeStorageExceeded, codeSealed, codeRollupDenied:
		return store.ErrPermanent
	case codeNotMatch:
		return errOtherStream
	default:
		return store.ErrUnknown
	}
}

// classifyRead gives the class of a failed read or request: transient or
// permanent, or errNoStream, which needs a second look.
func classifyRead(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		if api.ErrorCode == jetstream.JSErrCodeStreamNotFound || api.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount {
			return store.ErrPermanent
		}
		return store.ErrTransient
	case errors.Is(err, nats.ErrNoResponders):
		return errNoStream
	case errors.Is(err, nats.ErrConnectionClosed):
		return store.ErrClosed
	case errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrMaxPayload):
		return store.ErrPermanent
	default:
		return store.ErrTransient
	}
}

// A sighting is what the connection had to report before a call.
type sighting struct {
	err        error
	reconnects uint64
}

func (s *Store) sighting() sighting {
	return sighting{err: s.nc.LastError(), reconnects: s.nc.Stats().Reconnects}
}

// deniedSince returns the permission violation that the connection reported
// since before, if it names one of the subjects (or, ending in a dot, one that
// begins so).
//
// The server reports a denied publish or subscription as an error of the
// connection, without a link to the request. The violation is taken as this
// call's only if it is new, came on the same connection, and names the subject.
// Its text is the only place where the subject stands.
func (s *Store) deniedSince(before sighting, subjects ...string) error {
	return violation(s.reportedSince(before), subjects...)
}

// reportedSince returns what the connection reported last, if it did so since
// before. Who asks more than one question of it takes it once: a report may
// come between two questions.
func (s *Store) reportedSince(before sighting) error {
	err := s.nc.LastError()
	//nolint:errorlint // the same value again is the same report, an equal text in another value is a new one
	if err == before.err || s.nc.Stats().Reconnects != before.reconnects {
		return nil
	}
	return err
}

func violation(err error, subjects ...string) error {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	text := err.Error()
	for _, subject := range subjects {
		quoted := strconv.Quote(subject)
		if strings.HasSuffix(subject, ".") {
			quoted = strings.TrimSuffix(quoted, `"`)
		}
		if strings.Contains(text, quoted) {
			return err
		}
	}
	return nil
}

// inboxPrefix is the beginning of the subjects on which this connection
// receives replies.
func (s *Store) inboxPrefix() string {
	if p := s.nc.Opts.InboxPrefix; p != "" {
		return p + "."
	}
	return nats.InboxPrefix
}

// ended reports whether err is the end of a call without an answer, but for a
// broken connection.
func ended(err error) bool {
	return errors.Is(err, errDenied) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout)
}

// readError classifies and explains a failed request that changes nothing.
func (s *Store) readError(ctx context.Context, before sighting, subject string, err error) error {
	class := classifyRead(err)
	if errors.Is(class, errNoStream) {
		return s.diagnose(ctx, err)
	}
	if ended(err) {
		if denied := s.deniedSince(before, subject); denied != nil {
			return fmt.Errorf("%w: the user may not publish to %s: %w", store.ErrPermanent, subject, denied)
		}
		// The inbox is subscribed once for all requests, so that its violation
		// may be an old one.
		if denied := violation(s.nc.LastError(), s.inboxPrefix()); denied != nil {
			return fmt.Errorf("%w: the user may not subscribe to replies: %w", store.ErrPermanent, denied)
		}
	}
	return fmt.Errorf("%w: bucket %q: %w", class, s.bucket, err)
}
