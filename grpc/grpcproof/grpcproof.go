// Package grpcproof carries proofs of leadership over gRPC, in the metadata
// leader-proof.
//
// The leader's calls show a proof each, by credentials of the call:
//
//	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(tls),
//		grpc.WithPerRPCCredentials(&grpcproof.Credentials{Signer: signer, Audience: "archive"}))
//	_, err = client.Store(ctx, report)                // in the context of its term
//
// The service lets through what its verifier accepts:
//
//	grpc.NewServer(grpc.UnaryInterceptor(grpcproof.Unary(verifier)), grpc.StreamInterceptor(grpcproof.Stream(verifier)))
//
// It answers otherwise, without a call of the handler:
//
//	Unauthenticated       no proof was shown, or it is forged, expired, or for another group or audience
//	FailedPrecondition    the term is stale: a newer one was here
//	Unavailable           the gate could not decide: its mark could not be stored
//
// A handler's context carries the statement (proof.FromContext), and ends when
// a newer term arrives, which waits until the handler has returned. A stream is
// one act: it goes on beyond the end of its proof until a newer term arrives.
//
// The other way round, [ProveUnary] and [ProveStream] have the leader's answers
// carry a proof, for clients that ask by a challenge in the metadata
// leader-challenge; with [UnaryAsker] and [StreamAsker] a client takes no
// others.
//
// Module grpc holds the package, so that no program without gRPC fetches gRPC.
package grpcproof

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
)

// Key is the metadata key of a proof.
const Key = "leader-proof"

// Credentials show a proof with each call (credentials.PerRPCCredentials). The
// call's context must be a term's, or descend from one; a call whose proof
// cannot be signed is not sent, and fails with Unauthenticated. They may be
// used concurrently.
type Credentials struct {
	// Signer signs the proofs. Required.
	Signer *proof.Signer
	// Audience is the VerifierOptions.Audience of the service. If empty, the
	// proof is valid for any audience.
	Audience string
	// Insecure has proofs sent over connections without TLS, where anyone that
	// reads along can show them: for loopback, or a network that encrypts.
	Insecure bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (c *Credentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	text, err := c.Signer.Sign(ctx, c.Audience)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{Key: text}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (c *Credentials) RequireTransportSecurity() bool { return !c.Insecure }

// Unary returns an interceptor for calls of one answer. See the package
// documentation.
func Unary(v *proof.Verifier) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		work, leave, err := enter(ctx, v)
		if err != nil {
			return nil, err
		}
		defer leave()
		return handler(work, req)
	}
}

// Stream returns an interceptor for streams. See the package documentation.
func Stream(v *proof.Verifier) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		work, leave, err := enter(stream.Context(), v)
		if err != nil {
			return err
		}
		defer leave()
		return handler(srv, &workStream{stream, work})
	}
}

// A workStream is a stream with the context of the work.
type workStream struct {
	grpc.ServerStream

	work context.Context
}

// Context returns the context of the work.
func (s *workStream) Context() context.Context { return s.work }

// enter begins the work of a call. The error is a status.
func enter(ctx context.Context, v *proof.Verifier) (work context.Context, leave func(), err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	text, err := read(md)
	if err != nil {
		return ctx, func() {}, Status(err)
	}
	// A handler that forwards the metadata must not forward the proof.
	md = md.Copy()
	md.Delete(Key)
	work, leave, err = v.Enter(metadata.NewIncomingContext(ctx, md), text)
	if err != nil {
		return ctx, func() {}, Status(err)
	}
	return work, leave, nil
}

func read(md metadata.MD) (string, error) {
	switch shown := md.Get(Key); len(shown) {
	case 0:
		return "", proof.ErrNoProof
	case 1:
		return shown[0], nil
	default:
		return "", proof.ErrInvalid
	}
}

// Status returns the status that answers a call which err turned away, as
// documented for the package; nil for nil. Its message shows no proof, and
// describes an invalid proof only as invalid.
func Status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fence.ErrStale):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, fence.ErrRefused):
		return status.Error(codes.PermissionDenied, fence.ErrRefused.Error())
	case errors.Is(err, proof.ErrInvalid):
		return status.Error(codes.Unauthenticated, proof.ErrInvalid.Error())
	case errors.Is(err, proof.ErrNoProof), errors.Is(err, proof.ErrExpired), errors.Is(err, proof.ErrNotYet):
		return status.Error(codes.Unauthenticated, err.Error())
	case errors.Is(err, fence.ErrInvalid): // the gate's own mark
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		return status.Error(codes.Unavailable, "the gate could not decide")
	}
}
