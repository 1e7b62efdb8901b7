package natsstore

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// Error codes of the server (nats-server, server/errors.json) that this package
// acts on and that nats.go does not name.
const (
	codeAccountResources   jetstream.ErrorCode = 10002
	codeNoPeers            jetstream.ErrorCode = 10005
	codeNeedsMaxBytes      jetstream.ErrorCode = 10113
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
	// errStoreFailed: the stream could not store the message. With one replica,
	// or at a limit, the error is a refusal. A replicated stream whose leader
	// is being shut down returns the same error for a write that its peers have
	// stored.
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
// checkMsgHeadersPreClusteredProposal). The server returns each of them but
// 10077 and 10023 before the message is stored or proposed, or else every
// replica returns the same code.
func classifyRefusal(code jetstream.ErrorCode) error {
	switch code {
	case jetstream.JSErrCodeStreamWrongLastSequence:
		return store.ErrConflict
	case jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return errInFlight
	case codeStoreFailed:
		return errStoreFailed
	case codeClusterUnavailable, codeClusterNotLeader:
		return store.ErrTransient
	case codeNoResources:
		// A server before 2.12 may return these codes while it applies a
		// replicated message, and each server judges only its own resources:
		// the others store the message. The number of replicas is not
		// requested, since the stream's leader steps down with this answer.
		return store.ErrUnknown
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

// classifySubscribe gives the class of a failed subscription or publish, which
// only fails for what the connection is.
func classifySubscribe(err error) error {
	if class := classifyRead(err); errors.Is(class, store.ErrPermanent) {
		return class
	}
	return store.ErrTransient
}
