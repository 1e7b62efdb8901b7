package grpcproof

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/proof"
)

// ChallengeKey is the metadata key by which a call asks for a proof in the
// header of the answer.
const ChallengeKey = "leader-challenge"

// ErrUnproved is the error for an answer of which it is not proved that the
// leader gave it. Its status code is Unauthenticated. It wraps the reason:
// proof.ErrNoProof, proof.ErrInvalid, proof.ErrExpired, proof.ErrNotYet or
// fence.ErrStale.
var ErrUnproved = errors.New("grpcproof: the answer is not proved to be the leader's")

// unproved is an ErrUnproved with its reason.
type unproved struct{ reason error }

func (u unproved) Error() string   { return ErrUnproved.Error() + ": " + u.reason.Error() }
func (u unproved) Unwrap() []error { return []error{ErrUnproved, u.reason} }

// GRPCStatus has package status find the code.
func (u unproved) GRPCStatus() *status.Status { return status.New(codes.Unauthenticated, u.Error()) }

// UnaryAsker returns an interceptor for clients, by which each call demands a
// proof that it was the leader who answered:
//
//	grpc.NewClient(target, grpc.WithUnaryInterceptor(grpcproof.UnaryAsker(verifier)), …)
//
// Each call carries its own challenge. An answer that shows no proof, or none
// for that challenge, or a former leader's once a successor has answered, is an
// error that matches ErrUnproved; the caller's reply may have been filled by
// then, and is not to be looked at. Errors which mean that nothing was done or
// that the outcome is unknown (Unavailable, FailedPrecondition, Canceled,
// DeadlineExceeded) are returned as they are, and others have to be proved as
// well. The verifier's Audience does not matter here.
//
// The call has been sent by then. A call that must not reach an impostor, or be
// changed on the way, has to go over TLS: a proof shows who answered, and not
// what.
func UnaryAsker(v *proof.Verifier) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		challenge := proof.NewChallenge()
		var header metadata.MD
		err := invoke(challenged(ctx, challenge), method, req, reply, cc, append(slices.Clip(opts), grpc.Header(&header))...)
		if unclaimed(err) {
			return err
		}
		if refused := accept(ctx, v, challenge, header); refused != nil {
			return refused
		}
		return err
	}
}

// StreamAsker is [UnaryAsker] for streams. The proof is checked before the
// first message is returned, and shows who led when the stream began.
func StreamAsker(v *proof.Verifier) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		challenge := proof.NewChallenge()
		// A caller that gets an error from RecvMsg, or one other than io.EOF
		// from SendMsg or Header, need not end the stream, and a refused answer
		// has ended nothing.
		ctx, end := context.WithCancel(ctx)
		stream, err := open(challenged(ctx, challenge), desc, cc, method, opts...)
		if err != nil {
			end()
			return nil, err
		}
		judge := func(header metadata.MD) error { return accept(ctx, v, challenge, header) }
		return &askedStream{ClientStream: stream, judge: judge, end: end, one: !desc.ServerStreams}, nil
	}
}

// challenged returns the context of a call that carries the challenge, and no
// other.
func challenged(ctx context.Context, challenge string) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(ChallengeKey, challenge)
	return metadata.NewOutgoingContext(ctx, md)
}

// unclaimed reports whether an error claims nothing in the leader's name.
func unclaimed(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.FailedPrecondition, codes.Canceled, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

func accept(ctx context.Context, v *proof.Verifier, challenge string, header metadata.MD) error {
	text, err := read(header)
	if err == nil {
		_, err = v.AcceptAnswer(ctx, challenge, text)
	}
	if err != nil {
		return unproved{err}
	}
	return nil
}

// An askedStream is a stream whose first message is returned only if it is
// proved to be the leader's. A single goroutine receives, as on each stream.
type askedStream struct {
	grpc.ClientStream

	judge func(metadata.MD) error
	once  sync.Once
	err   error // of judge
	end   func()
	one   bool // message answers, and ends it
}

// RecvMsg receives a message, or the end.
func (s *askedStream) RecvMsg(m any) error {
	err := s.received(m)
	if err != nil || s.one {
		s.end()
	}
	return err
}

// SendMsg sends a message.
func (s *askedStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	s.aborted(err)
	return err
}

// Header returns the header of the answer, of which nothing is proved yet.
func (s *askedStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	s.aborted(err)
	return header, err
}

// aborted ends a stream after an error by which nobody need receive any more.
// After io.EOF the caller receives why.
func (s *askedStream) aborted(err error) {
	if err != nil && !errors.Is(err, io.EOF) {
		s.end()
	}
}

func (s *askedStream) received(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && !errors.Is(err, io.EOF) && unclaimed(err) {
		return err
	}
	s.once.Do(func() {
		header, _ := s.ClientStream.Header() // without one there is no proof
		s.err = s.judge(header)
	})
	if s.err != nil {
		return s.err
	}
	return err
}

// ProveUnary returns an interceptor for servers that shows a proof with each
// answer to a client that asks for it, as [UnaryAsker] does. The proof is
// signed when the handler has returned. Where the context of the call is of a
// term, as behind leadergrpc.UnaryServer, the proof is that term's. An answer
// of one who does not lead, or no longer, is sent without a proof.
//
// It signs for everyone who asks, and nothing that is worth anything to others:
// the proof answers that challenge alone.
func ProveUnary(s *proof.Signer) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		if md := answer(ctx, s); md != nil {
			_ = grpc.SetHeader(ctx, md) // a handler that has sent it is not proved
		}
		return resp, err
	}
}

// ProveStream is [ProveUnary] for streams. The proof is signed before the
// handler begins.
func ProveStream(s *proof.Signer) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if md := answer(stream.Context(), s); md != nil {
			_ = stream.SetHeader(md) // it was not sent yet
		}
		return handler(srv, stream)
	}
}

// answer returns the header that answers the challenge of a call, if there is
// one and it can be answered.
func answer(ctx context.Context, s *proof.Signer) metadata.MD {
	md, _ := metadata.FromIncomingContext(ctx)
	asked := md.Get(ChallengeKey)
	if len(asked) != 1 {
		return nil
	}
	text, err := s.Answer(ctx, asked[0])
	if err != nil {
		return nil
	}
	return metadata.Pairs(Key, text)
}
