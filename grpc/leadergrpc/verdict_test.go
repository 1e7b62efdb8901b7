package leadergrpc_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

// A scripted election follows a test's script.
type scripted struct {
	leader.Election

	do func(ctx context.Context, op func(context.Context) error) error
}

func (s scripted) Do(ctx context.Context, op func(context.Context) error) error { return s.do(ctx, op) }

func (s scripted) Observe(context.Context) iter.Seq[leader.LeaderInfo] {
	return func(yield func(leader.LeaderInfo) bool) { yield(leader.LeaderInfo{Group: "reports", Term: 7}) }
}

// serve has a handler end with an error. ends reports whether the term ends
// while it runs.
func serve(ctx context.Context, ends bool, handled error) error {
	e := scripted{do: func(ctx context.Context, op func(context.Context) error) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if ends {
			cancel()
		}
		return op(ctx)
	}}
	unary := leadergrpc.UnaryServer(e, leadergrpc.ServerOptions{})
	_, err := unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: who}, func(context.Context, any) (any, error) { return "answer", handled })
	return err
}

func TestOnlyTheErrorOfAnEndedTermIsReplaced(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	notFound := status.Error(codes.NotFound, "no such report")
	for name, c := range map[string]struct {
		ctx     context.Context
		ends    bool
		handled error
		want    codes.Code // Unavailable: it was replaced
	}{
		"it was served as the term ended":  {t.Context(), true, nil, codes.OK},
		"it gave up":                       {t.Context(), true, context.Canceled, codes.Unavailable},
		"it gave up, wrapped":              {t.Context(), true, fmt.Errorf("query: %w", context.Canceled), codes.Unavailable},
		"it saw the cause":                 {t.Context(), true, fmt.Errorf("query: %w", leader.ErrNotLeader), codes.Unavailable},
		"what it called was cancelled":     {t.Context(), true, status.Error(codes.Canceled, "x"), codes.Unavailable},
		"its own error as the term ended":  {t.Context(), true, notFound, codes.NotFound},
		"its own error":                    {t.Context(), false, notFound, codes.NotFound},
		"it cancelled something itself":    {t.Context(), false, status.Error(codes.Canceled, "x"), codes.Canceled},
		"the client is gone, and the term": {over, true, status.Error(codes.Canceled, "x"), codes.Canceled},
	} {
		err := serve(c.ctx, c.ends, c.handled)
		if c.want == codes.Unavailable {
			var reason string
			for _, d := range status.Convert(err).Details() {
				if info, ok := d.(*errdetails.ErrorInfo); ok {
					reason = info.GetReason()
				}
			}
			if status.Code(err) != codes.Unavailable || reason != leadergrpc.ReasonTermEnded {
				t.Errorf("%s: %v, %q", name, err, reason)
			}
		} else if status.Code(err) != c.want || c.handled != nil && !errors.Is(err, c.handled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheCauseThatKeptACallFromItsHandlerIsReported(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), -1)
	defer stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error // of Do
		want codes.Code
		text string
	}{
		"another leads":            {t.Context(), fmt.Errorf("x: %w", leader.ErrNotLeader), codes.FailedPrecondition, "this instance does not lead"},
		"the store did not answer": {t.Context(), errors.New("no responders"), codes.Unavailable, "could not be proved: no responders"},
		"the client gave up":       {over, context.Canceled, codes.Canceled, ""},
		"the client's time is up":  {late, context.DeadlineExceeded, codes.DeadlineExceeded, ""},
	} {
		e := scripted{do: func(context.Context, func(context.Context) error) error { return c.err }}
		unary := leadergrpc.UnaryServer(e, leadergrpc.ServerOptions{})
		_, err := unary(c.ctx, nil, &grpc.UnaryServerInfo{FullMethod: who}, func(context.Context, any) (any, error) {
			t.Errorf("%s: the handler ran", name)
			return "", nil
		})
		r, refused := leadergrpc.RefusalOf(err)
		if status.Code(err) != c.want || !strings.Contains(err.Error(), c.text) || refused != (c.want == codes.FailedPrecondition) {
			t.Errorf("%s: %v", name, err)
		}
		if refused && (r != leadergrpc.Refusal{Group: "reports", Term: 7}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// An instance that does not lead is healthy.
func TestHealthAndReflectionAreServedByAllInstances(t *testing.T) {
	e := scripted{do: func(context.Context, func(context.Context) error) error { return leader.ErrNotLeader }}
	for method, served := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": true, who: false, "/grpcx.Lab/Who": false,
	} {
		ran := 0
		_, unaryErr := leadergrpc.UnaryServer(e, leadergrpc.ServerOptions{})(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
			func(context.Context, any) (any, error) { ran++; return "", nil })
		streamErr := leadergrpc.StreamServer(e, leadergrpc.ServerOptions{})(nil, stream{t.Context()}, &grpc.StreamServerInfo{FullMethod: method},
			func(any, grpc.ServerStream) error { ran++; return nil })
		if (ran == 2) != served || ran == 1 || (unaryErr == nil) != served || (streamErr == nil) != served {
			t.Errorf("%s: %d handlers ran; %v, %v", method, ran, unaryErr, streamErr)
		}
	}
}

// A stream has a context, and nothing else.
type stream struct{ ctx context.Context } //nolint:containedctx // it is the stream's context

func (s stream) Context() context.Context   { return s.ctx }
func (stream) SendMsg(any) error            { return nil }
func (stream) RecvMsg(any) error            { return nil }
func (stream) SetHeader(metadata.MD) error  { return nil }
func (stream) SendHeader(metadata.MD) error { return nil }
func (stream) SetTrailer(metadata.MD)       {}

func TestARefusalIsOfThisDomainAndOfItsCode(t *testing.T) {
	for name, c := range map[string]struct {
		code   codes.Code
		domain string
		is     bool
	}{
		"ours":            {codes.FailedPrecondition, leadergrpc.Domain, true},
		"another domain":  {codes.FailedPrecondition, "example.com", false},
		"another code":    {codes.Unavailable, leadergrpc.Domain, false},
		"neither is ours": {codes.Unavailable, "example.com", false},
	} {
		s, err := status.New(c.code, "x").WithDetails(
			&errdetails.RequestInfo{RequestId: "1"}, // which others add
			&errdetails.ErrorInfo{Reason: leadergrpc.ReasonNotLeader, Domain: c.domain, Metadata: map[string]string{"group": "reports"}})
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := leadergrpc.RefusalOf(s.Err()); ok != c.is || ok && r.Group != "reports" {
			t.Errorf("%s: %+v, %v", name, r, ok)
		}
	}
}

// An observed leader counts more than one that a server named.
func TestALeaderThatIsObservedTakesTheCallsFromOneThatWasNamed(t *testing.T) {
	z, a := &instance{id: "z", serve: says("z")}, &instance{id: "a"}
	at, l := listenTCP(t), listenTCP(t)
	a.address = l.Addr().String()
	refusing := refuses(t, "reports", "z", at.Addr().String(), 9)
	var refusals atomic.Int32
	a.serve = func(ctx context.Context) (string, error) {
		if refusals.Add(1) == 1 {
			return refusing(ctx)
		}
		return "a", nil
	}
	serveOn(t, at, z, unguarded())
	serveOn(t, l, a, unguarded())
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: patience})
	conn.Connect()
	seen <- a.is(5)
	if got, err := ask(t, conn, who, grpc.WaitForReady(true)); err != nil || got != "z" {
		t.Fatalf("%q, %v", got, err)
	}
	seen <- a.is(6)
	seen <- a.is(6) // the first has been taken in
	answeredBy(t, conn, a)
}

// A slow listener closes its first connections at once.
type slow struct {
	net.Listener

	closes atomic.Int32
}

func (s *slow) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil || s.closes.Add(-1) < 0 {
			return c, err
		}
		_ = c.Close()
	}
}

// The call does not set WaitForReady itself.
func TestARefusedCallWaitsForALeaderThatCannotBeReachedYet(t *testing.T) {
	st := newStore()
	st.Put("reports", []byte(`{"id":"x","token":"t","ttl":60000}`))
	a := stand(t, st, config("a"), nil)
	follows(t, a, &instance{id: "x"})
	b := &instance{id: "b"}
	at := &slow{Listener: listenTCP(t)}
	at.closes.Store(1)
	b.address = at.Addr().String()
	serveOn(t, at, b, unguarded())
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: patience})
	conn.Connect()
	seen <- a.is(5)
	seen <- a.is(5)
	answer := calling(t, conn)
	<-a.refused
	seen <- b.is(6)
	if got := <-answer; got != "b" {
		t.Errorf("%q", got)
	}
}
