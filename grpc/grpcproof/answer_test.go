package grpcproof_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/grpc/grpcproof"
	"github.com/seed-ff2cb582/leader/proof"
)

// leads is an election that leads in a term, or in none.
type leads struct{ term uint64 }

func (l *leads) Status() leader.ElectionStatus {
	if l.term == 0 {
		return leader.ElectionStatus{}
	}
	return leader.ElectionStatus{IsLeader: true, Term: l.term, Token: "token", TrustUntil: time.Now().Add(10 * time.Second)}
}

// An answerer answers with its error; the stream sends one message before it.
type answerer struct {
	grpc_health_v1.UnimplementedHealthServer

	err    error
	header func(challenge string) []string // its own, in place of an interceptor's
}

func (a *answerer) show(ctx context.Context, set func(metadata.MD) error) error {
	if a.header == nil {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return set(metadata.MD{grpcproof.Key: a.header(md.Get(grpcproof.ChallengeKey)[0])})
}

func (a *answerer) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if err := a.show(ctx, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) }); err != nil {
		return nil, err
	}
	return new(grpc_health_v1.HealthCheckResponse), a.err
}

func (a *answerer) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	if err := a.show(stream.Context(), stream.SetHeader); err != nil {
		return err
	}
	if a.err != nil {
		return a.err
	}
	return stream.Send(new(grpc_health_v1.HealthCheckResponse))
}

// A scene is a group's key, and who asks.
type scene struct {
	*testing.T

	key proof.Key
	v   *proof.Verifier
}

func newScene(t *testing.T) *scene {
	t.Helper()
	key, err := proof.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := proof.NewKeySet(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	v, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{Audience: "archive"}) // which does not matter here
	if err != nil {
		t.Fatal(err)
	}
	return &scene{t, key, v}
}

func (s *scene) signer(e proof.Election) *proof.Signer {
	s.Helper()
	signer, err := proof.NewSigner(e, "reports", "host-1", s.key, proof.SignerOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return signer
}

// connect returns a connection to a server, whose calls ask for proofs. opened
// hears of the context of each stream that goes out.
func (s *scene) connect(register func(*grpc.Server), opened func(context.Context), opts ...grpc.ServerOption) *grpc.ClientConn {
	s.Helper()
	srv := grpc.NewServer(opts...)
	register(srv)
	listener, err := new(net.ListenConfig).Listen(s.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(listener)
	}()
	s.Cleanup(func() { srv.Stop(); <-served })
	hears := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		opened(ctx)
		return open(ctx, desc, cc, method, opts...)
	}
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcproof.UnaryAsker(s.v)), grpc.WithChainStreamInterceptor(grpcproof.StreamAsker(s.v), hears))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	return conn
}

func healthOf(a grpc_health_v1.HealthServer) func(*grpc.Server) {
	return func(srv *grpc.Server) { grpc_health_v1.RegisterHealthServer(srv, a) }
}

// ask makes a call of each kind of a server, and returns their errors.
func (s *scene) ask(a *answerer, opts ...grpc.ServerOption) (unary, stream error) {
	s.Helper()
	conn := s.connect(healthOf(a), func(context.Context) {}, opts...)
	return calls(metadata.AppendToOutgoingContext(s.Context(), grpcproof.ChallengeKey, "of the caller's own"), grpc_health_v1.NewHealthClient(conn))
}

func proves(s *proof.Signer) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(grpcproof.ProveUnary(s)), grpc.StreamInterceptor(grpcproof.ProveStream(s))}
}

func TestAnswersOfTheLeaderAreProved(t *testing.T) {
	s := newScene(t)
	e := &leads{7}
	if unary, stream := s.ask(new(answerer), proves(s.signer(e))...); unary != nil || stream != nil {
		t.Errorf("%v, %v", unary, stream)
	}
	notFound := &answerer{err: status.Error(codes.NotFound, "no such report")}
	if unary, stream := s.ask(notFound, proves(s.signer(e))...); status.Code(unary) != codes.NotFound || status.Code(stream) != codes.NotFound {
		t.Errorf("an error: %v, %v", unary, stream)
	}
	e.term = 0
	if unary, stream := s.ask(new(answerer), proves(s.signer(e))...); !errors.Is(unary, proof.ErrNoProof) || !errors.Is(stream, proof.ErrNoProof) {
		t.Errorf("of one who does not lead: %v, %v", unary, stream)
	}
	e.term = 6
	if unary, stream := s.ask(new(answerer), proves(s.signer(e))...); !errors.Is(unary, fence.ErrStale) || !errors.Is(stream, fence.ErrStale) {
		t.Errorf("of a former leader: %v, %v", unary, stream)
	}
}

// An endless one sends one message without a proof, and then no more.
type endless struct {
	grpc_health_v1.UnimplementedHealthServer

	ended chan struct{}
}

func (e *endless) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	defer close(e.ended)
	if err := stream.Send(new(grpc_health_v1.HealthCheckResponse)); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// A caller that gets an error of a stream need do no more with it, nor end its
// context.
func TestAStreamThatIsRefusedEnds(t *testing.T) {
	s, e := newScene(t), &endless{ended: make(chan struct{})}
	conn := s.connect(healthOf(e), func(context.Context) {})
	stream, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), new(grpc_health_v1.HealthCheckRequest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, proof.ErrNoProof) {
		t.Fatal(err)
	}
	select {
	case <-e.ended:
	case <-time.After(time.Minute):
		t.Error("the stream goes on, of which nobody hears any more")
	}
}

// The one answer to a stream of the client's ends it: nobody receives again.
func TestAStreamOfOneAnswerEndsWithIt(t *testing.T) {
	s := newScene(t)
	desc := grpc.StreamDesc{StreamName: "Collect", ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		for {
			switch err := stream.RecvMsg(new(grpc_health_v1.HealthCheckRequest)); {
			case errors.Is(err, io.EOF):
				return stream.SendMsg(new(grpc_health_v1.HealthCheckResponse))
			case err != nil:
				return err
			}
		}
	}}
	var ended func() error
	conn := s.connect(func(srv *grpc.Server) {
		srv.RegisterService(&grpc.ServiceDesc{ServiceName: "x.Collector", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}}, nil)
	}, func(ctx context.Context) { ended = ctx.Err }, proves(s.signer(&leads{7}))...)
	stream, err := conn.NewStream(t.Context(), &desc, "/x.Collector/Collect")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(stream.SendMsg(new(grpc_health_v1.HealthCheckRequest)), stream.SendMsg(new(grpc_health_v1.HealthCheckRequest)), stream.CloseSend(),
		stream.RecvMsg(new(grpc_health_v1.HealthCheckResponse)))
	if err != nil || ended() == nil {
		t.Errorf("%v; its context has ended: %v", err, ended())
	}
}

// A caller that gets an error of a stream's SendMsg need do no more with it,
// either.
func TestAStreamOnWhichNothingCanBeSentEnds(t *testing.T) {
	s := newScene(t)
	var ended func() error
	conn := s.connect(healthOf(new(answerer)), func(ctx context.Context) { ended = ctx.Err })
	desc := grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := conn.NewStream(t.Context(), &desc, grpc_health_v1.Health_Watch_FullMethodName, grpc.MaxCallSendMsgSize(1))
	if err != nil {
		t.Fatal(err)
	}
	err = stream.SendMsg(&grpc_health_v1.HealthCheckRequest{Service: "longer than that"})
	if status.Code(err) != codes.ResourceExhausted || ended() == nil {
		t.Errorf("%v; its context has ended: %v", err, ended())
	}
}

// A broken one is the stream of another interceptor.
type broken struct {
	grpc.ClientStream

	err error
}

func (b broken) SendMsg(any) error            { return b.err }
func (b broken) Header() (metadata.MD, error) { return nil, b.err }

// After io.EOF the caller receives the reason, which a stream that has ended
// may not have.
func TestAStreamEndsWithTheErrorsAfterWhichNobodyReceives(t *testing.T) {
	for err, ends := range map[error]bool{io.EOF: false, status.Error(codes.Internal, "broken"): true} {
		for name, call := range map[string]func(grpc.ClientStream) error{
			"SendMsg": func(stream grpc.ClientStream) error { return stream.SendMsg(nil) },
			"Header":  func(stream grpc.ClientStream) error { _, err := stream.Header(); return err },
		} {
			var ended func() error
			open := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
				ended = ctx.Err
				return broken{err: err}, nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			stream, failure := grpcproof.StreamAsker(nil)(ctx, new(grpc.StreamDesc), nil, "", open)
			if failure != nil {
				t.Fatal(failure)
			}
			if got := call(stream); !errors.Is(got, err) || (ended() != nil) != ends {
				t.Errorf("%s, %v: %v; its context has ended: %v", name, err, got, ended())
			}
			cancel()
		}
	}
}

func TestAnswersOfImpostorsAreRefused(t *testing.T) {
	s, stranger := newScene(t), newScene(t)
	e := &leads{7}
	earlier, err := s.signer(e).Answer(t.Context(), proof.NewChallenge())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	request, err := s.key.Sign(proof.Statement{
		Group: "reports", Leader: "host-1", Term: 7, Digest: fence.Digest("token"), Audience: "archive", Issued: now, Until: now.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	show := func(texts ...string) *answerer { return &answerer{header: func(string) []string { return texts }} }
	for name, c := range map[string]struct {
		a    *answerer
		want error
	}{
		"no proof":             {new(answerer), proof.ErrNoProof},
		"no proof, an error":   {&answerer{err: status.Error(codes.NotFound, "")}, proof.ErrNoProof},
		"an answer to another": {show(earlier), proof.ErrInvalid},
		"a request's proof":    {show(request), proof.ErrInvalid},
		"two":                  {show(earlier, earlier), proof.ErrInvalid},
		"another key": {&answerer{header: func(challenge string) []string {
			text, err := stranger.signer(e).Answer(t.Context(), challenge)
			if err != nil {
				t.Error(err)
			}
			return []string{text}
		}}, proof.ErrInvalid},
	} {
		unary, stream := s.ask(c.a)
		for kind, err := range map[string]error{"unary": unary, "stream": stream} {
			if !errors.Is(err, grpcproof.ErrUnproved) || !errors.Is(err, c.want) || status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
		}
	}
	// An error that claims nothing is passed on: by it, clients go elsewhere.
	for _, code := range []codes.Code{codes.Unavailable, codes.FailedPrecondition} {
		if unary, stream := s.ask(&answerer{err: status.Error(code, "")}); status.Code(unary) != code || status.Code(stream) != code {
			t.Errorf("%v: %v, %v", code, unary, stream)
		}
	}
}
