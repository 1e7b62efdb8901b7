package natsfence

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// Errors of this package, for errors.Is. See the package documentation for the
// others.
var (
	// ErrLost: the guard is gone, or was deleted, or an earlier term has raised
	// it since, or it holds foreign data. It needs a person.
	ErrLost = errors.New("natsfence: the guard was lost")
	// ErrUnfit: the stream is configured so that it cannot hold a guard. The
	// text names the setting to change.
	ErrUnfit = errors.New("natsfence: the stream cannot hold a guard")
)

// Outcomes of a publish that are not yet one of the caller's.
var (
	// errMoved: the guard's last message is another one.
	errMoved = errors.New("the guard moved")
	// errInFlight: another write under the same guard is being replicated
	// (jetstream_batching.go, checkMsgHeadersPreClusteredProposal); the server
	// looked no further at this one.
	errInFlight = errors.New("another write under the guard is in flight")
	// errCopyInFlight: an earlier message with this Nats-Msg-Id is being
	// replicated (jetstream_batching.go, as above). This one is refused, and
	// that one may yet be stored.
	errCopyInFlight = errors.New("an earlier copy of the message is in flight")
)

// Error codes of the server (nats-server, server/errors.json) that nats.go does
// not name.
const (
	codeClusterUnavailable jetstream.ErrorCode = 10008
	codeClusterNotLeader   jetstream.ErrorCode = 10009
	codeNoResources        jetstream.ErrorCode = 10023
	codeStoreFailed        jetstream.ErrorCode = 10077
	codeCopyInFlight       jetstream.ErrorCode = 10158
)

// classify gives the class of a failed publish. Only an explicit refusal proves
// that nothing was stored.
func classify(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		return classifyRefusal(api.ErrorCode)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded):
		return store.ErrTransient // nobody got it
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrHeadersNotSupported):
		return store.ErrPermanent
	default:
		return store.ErrUnknown
	}
}

func classifyRefusal(code jetstream.ErrorCode) error {
	switch code {
	case jetstream.JSErrCodeStreamWrongLastSequence:
		return errMoved
	case jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return errInFlight
	case codeCopyInFlight:
		return errCopyInFlight
	case codeClusterUnavailable, codeClusterNotLeader:
		return store.ErrTransient
	case codeStoreFailed, codeNoResources:
		// A replicated stream whose leader is being shut down answers the first
		// for a write that its peers have stored; one whose leader has no
		// resources left answers the second, on servers before 2.12.
		return store.ErrUnknown
	default:
		// The stream looked at the message and refused it before storing or
		// proposing it: too large, over a limit, sealed, another stream's
		// subject.
		return store.ErrPermanent
	}
}

func classed(err error) error { return fmt.Errorf("natsfence: %w: %w", classify(err), err) }
