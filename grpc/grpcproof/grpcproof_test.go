package grpcproof_test

import (
	"context"
	"errors"
	"net"
	"strings"
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
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A service is a gRPC server on loopback, which notes the candidates that it
// served. The health service provides a unary call and a stream.
type service struct {
	grpc_health_v1.UnimplementedHealthServer

	key  proof.Key
	addr string
	seen chan proof.Statement
}

func (s *service) note(ctx context.Context) {
	st, _ := proof.FromContext(ctx)
	if md, _ := metadata.FromIncomingContext(ctx); len(md.Get(grpcproof.Key)) > 0 {
		st.Leader = "the handler saw the proof"
	}
	s.seen <- st
}

func (s *service) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s.note(ctx)
	return new(grpc_health_v1.HealthCheckResponse), nil
}

// Watch is a stream until its work ends.
func (s *service) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	s.note(stream.Context())
	if err := stream.Send(new(grpc_health_v1.HealthCheckResponse)); err != nil {
		return err
	}
	<-stream.Context().Done()
	return grpcproof.Status(context.Cause(stream.Context()))
}

func newService(t *testing.T, opts proof.VerifierOptions) *service {
	t.Helper()
	s := &service{seen: make(chan proof.Statement, 100)}
	var err error
	if s.key, err = proof.GenerateKey(); err != nil {
		t.Fatal(err)
	}
	keys, err := proof.NewKeySet(s.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	v, err := proof.NewVerifier("reports", keys, opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.UnaryInterceptor(grpcproof.Unary(v)), grpc.StreamInterceptor(grpcproof.Stream(v)))
	grpc_health_v1.RegisterHealthServer(srv, s)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(listener)
	}()
	t.Cleanup(func() { srv.Stop(); <-served })
	return s
}

func (s *service) client(t *testing.T, opts ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

func (s *service) sign(t *testing.T, term uint64, from, until time.Duration) string {
	t.Helper()
	now := time.Now()
	text, err := s.key.Sign(proof.Statement{
		Group: "reports", Leader: "host-1", Term: term, Digest: fence.Digest("token"), Issued: now.Add(from), Until: now.Add(until),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// calls makes a call of each kind, and returns their errors.
func calls(ctx context.Context, c grpc_health_v1.HealthClient) (unary, stream error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, unary = c.Check(ctx, new(grpc_health_v1.HealthCheckRequest))
	watch, stream := c.Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
	if stream == nil {
		_, stream = watch.Recv()
	}
	return unary, stream
}

func TestCallsAreAnsweredByWhatTheyShow(t *testing.T) {
	full := false
	s := newService(t, proof.VerifierOptions{Gate: &fence.Gate{Persist: func(context.Context, fence.Mark) error {
		if full {
			return errors.New("the disk is full")
		}
		return nil
	}}})
	stranger := newService(t, proof.VerifierOptions{})
	client := s.client(t)
	good := s.sign(t, 7, 0, time.Minute)
	for _, c := range []struct {
		name   string
		proofs []string
		want   codes.Code
	}{
		{"none", nil, codes.Unauthenticated},
		{"an empty one", []string{""}, codes.Unauthenticated},
		{"a word", []string{"let me in"}, codes.Unauthenticated},
		{"two", []string{good, good}, codes.Unauthenticated},
		{"another key's", []string{stranger.sign(t, 9, 0, time.Minute)}, codes.Unauthenticated},
		{"an old one", []string{s.sign(t, 9, -time.Hour, -time.Minute)}, codes.Unauthenticated},
		{"one from the future", []string{s.sign(t, 9, time.Minute, time.Hour)}, codes.Unauthenticated},
		{"a good one", []string{good}, codes.OK},
		{"a proof of the next term", []string{s.sign(t, 8, 0, time.Minute)}, codes.OK},
		{"a proof of the previous term", []string{good}, codes.FailedPrecondition},
	} {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{grpcproof.Key: c.proofs})
		unary, stream := calls(ctx, client)
		for kind, err := range map[string]error{"unary": unary, "stream": stream} {
			if status.Code(err) != c.want || err != nil && strings.Contains(err.Error(), good[len(good)-20:]) {
				t.Errorf("%s, %s: %v", c.name, kind, err)
			}
		}
		if served := map[codes.Code]int{codes.OK: 2}[c.want]; len(s.seen) != served {
			t.Errorf("%s: %d calls of the handler", c.name, len(s.seen))
		}
		for len(s.seen) > 0 {
			if st := <-s.seen; st.Leader != "host-1" {
				t.Errorf("%s: the handler saw %v", c.name, st)
			}
		}
	}
	full = true
	unary, stream := calls(metadata.AppendToOutgoingContext(t.Context(), grpcproof.Key, s.sign(t, 9, 0, time.Minute)), client)
	if status.Code(unary) != codes.Unavailable || status.Code(stream) != codes.Unavailable || strings.Contains(unary.Error(), "disk") {
		t.Errorf("a gate that cannot decide: %v, %v", unary, stream)
	}
}

func TestStreamEndsWhenANewerTermArrives(t *testing.T) {
	s := newService(t, proof.VerifierOptions{})
	client := s.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch, err := client.Watch(metadata.AppendToOutgoingContext(ctx, grpcproof.Key, s.sign(t, 7, 0, time.Minute)), new(grpc_health_v1.HealthCheckRequest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	next := metadata.AppendToOutgoingContext(ctx, grpcproof.Key, s.sign(t, 8, 0, time.Minute))
	if _, err := client.Check(next, new(grpc_health_v1.HealthCheckRequest)); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the stream of the older term: %v", err)
	}
}

func TestCredentialsShowAProofOfTheCallsTerm(t *testing.T) {
	s := newService(t, proof.VerifierOptions{Audience: "archive"})
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: time.Minute, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	promoted := make(chan context.Context, 1)
	e.OnPromote(func(ctx context.Context, _ string) { promoted <- ctx })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop() }()
	signer, err := proof.NewSigner(e, "reports", "host-1", s.key, proof.SignerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	term := <-promoted
	client := s.client(t, grpc.WithPerRPCCredentials(&grpcproof.Credentials{Signer: signer, Audience: "archive", Insecure: true}))
	if unary, stream := calls(term, client); unary != nil || stream != nil {
		t.Errorf("%v, %v", unary, stream)
	}
	if st := <-s.seen; st.Leader != "host-1" || st.Audience != "archive" || st.Term != 1 {
		t.Errorf("%v", st)
	}
	<-s.seen
	if unary, stream := calls(t.Context(), client); status.Code(unary) != codes.Unauthenticated || status.Code(stream) != codes.Unauthenticated {
		t.Errorf("outside of a term: %v, %v", unary, stream)
	}
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if unary, _ := calls(context.WithoutCancel(term), client); status.Code(unary) != codes.Unauthenticated || len(s.seen) != 0 {
		t.Errorf("after the term: %v", unary)
	}
}

// A proof is a secret for as long as it lasts.
func TestCredentialsAreNotSentInTheClearByDefault(t *testing.T) {
	_, err := grpc.NewClient("passthrough:///127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(new(grpcproof.Credentials)))
	if err == nil {
		t.Error("a connection without TLS was made")
	}
}
