package leadergrpc

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
)

// ServerOptions are the settings of a server's interceptors. The zero value is
// a good one.
type ServerOptions struct {
	// Local reports which methods ("/package.Service/Method") every instance
	// serves: reads that may be stale. Default: gRPC's own methods, health and
	// reflection.
	Local func(fullMethod string) bool
}

func (o ServerOptions) local(method string) bool {
	if o.Local != nil {
		return o.Local(method)
	}
	return strings.HasPrefix(method, "/grpc.")
}

// UnaryServer serves calls while e leads, and refuses them otherwise: see
// [RefusalOf]. The handler runs within Election.Do, and so after the validation
// that FencingConfig asks for: its context ends with the term and carries it.
// If the handler then returns the context's error, the client's is Unavailable
// with [ReasonTermEnded]. A refusal that the handler got itself, by a call to a
// leader, loses its details: a handler has run here. Unavailable is also the
// code, without a reason, where the store had to be asked and did not answer; no
// handler has run then.
func UnaryServer(e leader.Election, opts ServerOptions) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		if opts.local(info.FullMethod) {
			resp, err = handler(ctx, req)
			return resp, ran(err)
		}
		err = lead(ctx, e, func(ctx context.Context) error {
			resp, err = handler(ctx, req)
			return err
		})
		return resp, err
	}
}

// StreamServer is [UnaryServer] for streams. The term is looked at when a
// stream begins; one that outlives it sees the end of its context.
func StreamServer(e leader.Election, opts ServerOptions) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if opts.local(info.FullMethod) {
			return ran(handler(srv, ss))
		}
		return lead(ss.Context(), e, func(ctx context.Context) error { return handler(srv, within(ss, ctx)) })
	}
}

// lead runs a handler if e leads.
func lead(ctx context.Context, e leader.Election, handler func(context.Context) error) error {
	begun := false
	err := e.Do(ctx, func(work context.Context) error {
		begun = true
		err := ran(handler(work))
		if err != nil && work.Err() != nil && ctx.Err() == nil && canceled(err) {
			return errorOf(codes.Unavailable, "the term ended while the call was served", ReasonTermEnded, nil)
		}
		return err
	})
	switch {
	case begun || err == nil:
		return err
	case errors.Is(err, leader.ErrNotLeader):
		return refusal(present(ctx, e))
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	default:
		return status.Error(codes.Unavailable, "leadership could not be proved: "+err.Error())
	}
}

// ran returns the error of a handler. A refusal that it got itself loses its
// details, by which a client would take it for one that no handler has seen.
func ran(err error) error {
	if _, passedOn := RefusalOf(err); passedOn {
		return status.Error(status.Code(err), status.Convert(err).Message())
	}
	return err
}

func canceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, leader.ErrNotLeader) || status.Code(err) == codes.Canceled
}

// present returns who leads as the election sees it.
func present(ctx context.Context, e leader.Election) (info leader.LeaderInfo) {
	for info = range e.Observe(ctx) {
		break
	}
	return info
}

// within returns a stream with another context.
func within(ss grpc.ServerStream, ctx context.Context) grpc.ServerStream { //nolint:revive // the stream is what is changed
	return &serverStream{ss, ctx}
}

type serverStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // it is the stream's context
}

func (s *serverStream) Context() context.Context { return s.ctx }
