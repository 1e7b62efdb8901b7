package leadergrpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

// The metadata that states a term.
const (
	KeyGroup = "leader-group" // the group's name
	KeyTerm  = "leader-term"  // the term's number, decimal
	KeyToken = "leader-token" // the term's token
)

// ErrNoTerm is the error for a context or for metadata without a term.
var ErrNoTerm = errors.New("leadergrpc: no term")

// Outgoing returns a context whose calls state a term of a group, in place of
// what they stated before.
func Outgoing(ctx context.Context, group string, t leader.Term) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(KeyGroup, group)
	md.Set(KeyTerm, strconv.FormatUint(t.Number, 10))
	md.Set(KeyToken, t.Token)
	return metadata.NewOutgoingContext(ctx, md)
}

// Stated returns the group and the term that an incoming call states, in a
// handler behind RequireTerm those that were let in. The error
// matches ErrNoTerm if it states none, and fence.ErrInvalid if that is
// malformed: each key must be there once, the group a name that store.ValidKey
// takes, the number a decimal without sign and leading zeros, and the token
// what fence.Check takes. No error shows a token.
func Stated(ctx context.Context) (group string, t leader.Term, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	groups, numbers, tokens := md.Get(KeyGroup), md.Get(KeyTerm), md.Get(KeyToken)
	if t, ok := fence.FromContext(ctx); ok && len(groups) == 1 && len(tokens) == 0 {
		return groups[0], t, nil
	}
	switch {
	case len(groups)+len(numbers)+len(tokens) == 0:
		return "", leader.Term{}, ErrNoTerm
	case len(groups) != 1 || len(numbers) != 1 || len(tokens) != 1:
		return "", leader.Term{}, fmt.Errorf("%w: %s, %s and %s must each be given once", fence.ErrInvalid, KeyGroup, KeyTerm, KeyToken)
	case !store.ValidKey(groups[0]):
		return "", leader.Term{}, fmt.Errorf("%w: %s names no group", fence.ErrInvalid, KeyGroup)
	}
	n, err := strconv.ParseUint(numbers[0], 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != numbers[0] {
		return "", leader.Term{}, fmt.Errorf("%w: %s is not a term's number", fence.ErrInvalid, KeyTerm)
	}
	t = leader.Term{Number: n, Token: tokens[0]}
	if err := fence.Check(t); err != nil {
		return "", leader.Term{}, err
	}
	return groups[0], t, nil
}

// StateTerm returns the interceptors of a leader that calls a resource: they
// state the term of the call's context (leader.TermFromContext), which comes
// from OnPromote, Run's function or Election.Do, or descends from one. A call
// without a term is refused with ErrNoTerm, and one whose term is over with the
// cause of its context's end (leader.ErrNotLeader); neither is sent.
func StateTerm(group string) (grpc.UnaryClientInterceptor, grpc.StreamClientInterceptor) {
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, err := stating(ctx, group)
		if err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, err := stating(ctx, group)
		if err != nil {
			return nil, err
		}
		return open(ctx, desc, cc, method, opts...)
	}
	return unary, stream
}

func stating(ctx context.Context, group string) (context.Context, error) {
	t, ok := leader.TermFromContext(ctx)
	switch {
	case !ok || t.IsZero():
		return nil, fmt.Errorf("%w in the context of a call", ErrNoTerm)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return Outgoing(ctx, group, t), nil
}

// RequireTerm returns the interceptors of a resource that leaders of groups
// call: a handler runs only for a term that enters its group's gate, which
// remembers the largest one. fence.Gate documents how a gate outlives a restart
// (Persist, NewGate), and keeps work of different terms apart: the handler's
// context ends when a newer term arrives, which then waits for the handler to
// return; it carries the term (fence.FromContext), and its metadata has no
// token any more. Other calls are answered with
//
//	FailedPrecondition  [ReasonStaleTerm], or [ReasonNoTerm]
//	PermissionDenied    the gate refuses the term, for want of a proof for example (fence.Gate.Vet)
//	InvalidArgument     the metadata is malformed, or of a group that has no gate
//	Unavailable         the gate could not decide: its mark could not be stored, or the work of an earlier term did not
//	                    end in time
//
// and the handler sees none of them. The map must not be changed afterwards.
// Restrict the interceptors to the methods that change something with opts.
func RequireTerm(gates map[string]*fence.Gate, opts ServerOptions) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if opts.local(info.FullMethod) {
			return handler(ctx, req)
		}
		work, leave, err := enter(ctx, gates)
		if err != nil {
			return nil, RefuseTerm(err)
		}
		defer leave()
		return handler(work, req)
	}
	stream := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if opts.local(info.FullMethod) {
			return handler(srv, ss)
		}
		work, leave, err := enter(ss.Context(), gates)
		if err != nil {
			return RefuseTerm(err)
		}
		defer leave()
		return handler(srv, within(ss, work))
	}
	return unary, stream
}

func enter(ctx context.Context, gates map[string]*fence.Gate) (work context.Context, leave func(), err error) {
	group, t, err := Stated(ctx)
	if err != nil {
		return nil, nil, err
	}
	g := gates[group]
	if g == nil {
		return nil, nil, fmt.Errorf("%w: %s is not a group that is needed here", fence.ErrInvalid, KeyGroup)
	}
	// A handler that forwards the metadata must not forward the token.
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	md.Delete(KeyToken)
	return g.Enter(fence.NewContext(metadata.NewIncomingContext(ctx, md), t), t)
}

// RefuseTerm returns the error for a call that err turned away, as
// [RequireTerm] answers it. A handler that finds out only in its own
// transaction that the term is stale (package sqlfence) returns it.
func RefuseTerm(err error) error {
	var stale *fence.StaleError
	switch {
	case errors.As(err, &stale):
		return errorOf(codes.FailedPrecondition,
			fmt.Sprintf("term %d does not supersede term %d, which was here before", stale.Refused.Term, stale.Last.Term),
			ReasonStaleTerm, map[string]string{keyTerm: strconv.FormatUint(stale.Last.Term, 10)})
	case errors.Is(err, fence.ErrStale):
		return errorOf(codes.FailedPrecondition, "stale term", ReasonStaleTerm, nil)
	case errors.Is(err, fence.ErrRefused):
		return status.Error(codes.PermissionDenied, fence.ErrRefused.Error()) // why, is the resource's own affair
	case errors.Is(err, ErrNoTerm):
		return errorOf(codes.FailedPrecondition, fmt.Sprintf("a leader's term is required, in %s, %s and %s", KeyGroup, KeyTerm, KeyToken),
			ReasonNoTerm, nil)
	case errors.Is(err, fence.ErrInvalid):
		return status.Error(codes.InvalidArgument, err.Error())
	default:
		return status.Error(codes.Unavailable, "the term could not be admitted") // the text may be the resource's own affair
	}
}
