package leadergrpc

import (
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
)

// Domain is the domain of the google.rpc.ErrorInfo in the errors of this
// package. The reasons are its Reason.
const (
	Domain = "leader"
	// ReasonNotLeader: the server does not lead. No handler has run. The
	// metadata contains a [Refusal].
	ReasonNotLeader = "NOT_LEADER"
	// ReasonTermEnded: the term ended while the handler ran, which gave up. How
	// far it came, nobody knows.
	ReasonTermEnded = "TERM_ENDED"
	// ReasonStaleTerm: a resource has seen a newer term. Its number is "term"
	// in the metadata. No handler has run, unless it answered so itself
	// ([RefuseTerm]).
	ReasonStaleTerm = "STALE_TERM"
	// ReasonNoTerm: a call to a resource states no term. No handler has run.
	ReasonNoTerm = "NO_TERM"
)

// The keys of a Refusal in an ErrorInfo.
const (
	keyGroup   = "group"
	keyTerm    = "term"
	keyLeader  = "leader"
	keyAddress = "address"
)

// A Refusal explains why a server did not serve a call: it does not lead. No
// handler has run.
type Refusal struct {
	// Group is the group of the server.
	Group string
	// ID and Address are the leader's, as far as the server knows; empty if it
	// knows of none.
	ID      string
	Address string
	// Term is the number of the leader's term; of the last one that the server
	// knows of if nobody leads. A number larger than fence.MaxTerm, which no
	// election reaches, is read as 0.
	Term uint64
}

// RefusalOf returns the refusal that an error of a call holds.
func RefusalOf(err error) (r Refusal, ok bool) {
	info := infoOf(err)
	if info.GetReason() != ReasonNotLeader || status.Code(err) != codes.FailedPrecondition {
		return Refusal{}, false
	}
	m := info.GetMetadata()
	term, bad := strconv.ParseUint(m[keyTerm], 10, 64)
	if bad != nil || term > fence.MaxTerm {
		term = 0
	}
	return Refusal{Group: m[keyGroup], ID: m[keyLeader], Address: m[keyAddress], Term: term}, true
}

// maxAddress bounds what a refusal repeats of a record, since it travels in a
// header.
const maxAddress = 1 << 10

// refusal is the error of a server that sees info.
func refusal(info leader.LeaderInfo) error {
	text := info.String()
	if info.ID == "" {
		text = "this instance does not lead; " + text
	}
	address := info.Address
	if len(address) > maxAddress {
		address = ""
	}
	return errorOf(codes.FailedPrecondition, text, ReasonNotLeader, map[string]string{
		keyGroup: info.Group, keyTerm: strconv.FormatUint(info.Term, 10), keyLeader: info.ID, keyAddress: address,
	})
}

// errorOf returns an error that programs in any language can distinguish.
func errorOf(code codes.Code, text, reason string, metadata map[string]string) error {
	s := status.New(code, text)
	if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: metadata}); err == nil {
		s = detailed
	}
	return s.Err()
}

// infoOf returns our ErrorInfo of an error, nil if there is none.
func infoOf(err error) *errdetails.ErrorInfo {
	s, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info
		}
	}
	return nil
}
