package leadergrpc_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

const token = "6f1c2f6e-0c0e-4e0e-9d61-6ed0f6a1a6e3"

// resource starts a server that admits terms of the groups a and b.
func resource(t *testing.T, serve handler) (*instance, *grpc.ClientConn) {
	t.Helper()
	unary, stream := leadergrpc.RequireTerm(map[string]*fence.Gate{"a": {}, "b": fence.NewGate(fence.Mark{Term: 40})},
		leadergrpc.ServerOptions{Local: func(method string) bool { return method == local }})
	x := &instance{serve: serve}
	l := listenTCP(t)
	serveOn(t, l, x, grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	return x, dial(t, l.Addr().String())
}

func stated(pairs ...string) context.Context {
	return metadata.NewOutgoingContext(context.Background(), metadata.Pairs(pairs...))
}

func TestAResourceAdmitsTheLatestTermOfEachGroup(t *testing.T) {
	x, conn := resource(t, says("done"))
	of := func(group string, n uint64, tok string) context.Context {
		return leadergrpc.Outgoing(t.Context(), group, leader.Term{Number: n, Token: tok})
	}
	for i, c := range []struct {
		ctx  context.Context
		want codes.Code
	}{
		{of("a", 7, token), codes.OK},
		{of("a", 7, token), codes.OK},
		{of("a", 7, "another"), codes.FailedPrecondition},
		{of("a", 6, token), codes.FailedPrecondition},
		{of("a", 9, "another"), codes.OK},
		{of("a", 7, token), codes.FailedPrecondition},
		{of("b", 9, token), codes.FailedPrecondition}, // it has a mark from before a restart
		{of("b", 41, token), codes.OK},                // and knows nothing of the other group
		{of("c", 50, token), codes.InvalidArgument},
		{of("a", 1<<64-1, token), codes.InvalidArgument},
		{t.Context(), codes.FailedPrecondition},
		{stated(leadergrpc.KeyGroup, "a", leadergrpc.KeyTerm, "70"), codes.InvalidArgument},
		{stated(leadergrpc.KeyGroup, "a", leadergrpc.KeyTerm, "070", leadergrpc.KeyToken, token), codes.InvalidArgument},
		{stated(leadergrpc.KeyGroup, "a", leadergrpc.KeyTerm, "-1", leadergrpc.KeyToken, token), codes.InvalidArgument},
		{stated(leadergrpc.KeyGroup, "a", leadergrpc.KeyTerm, "70", leadergrpc.KeyTerm, "71", leadergrpc.KeyToken, token), codes.InvalidArgument},
		{stated(leadergrpc.KeyGroup, "a", leadergrpc.KeyGroup, "b", leadergrpc.KeyTerm, "70", leadergrpc.KeyToken, token), codes.InvalidArgument},
		{stated(leadergrpc.KeyGroup, "a*", leadergrpc.KeyTerm, "70", leadergrpc.KeyToken, token), codes.InvalidArgument},
		{of("a", 9, "another"), codes.OK}, // nothing of that moved the mark
	} {
		for _, method := range []string{who, listen} {
			before := x.runs.Load()
			_, err := askIn(c.ctx, conn, method)
			if ran := x.runs.Load() != before; status.Code(err) != c.want || ran != (err == nil) {
				t.Errorf("%d, %s: %v, want %v; ran: %v", i, method, err, c.want, ran)
			}
		}
	}
	if got, err := ask(t, conn, local); err != nil || got != "done" {
		t.Errorf("a method that anybody may call: %q, %v", got, err)
	}
}

// The work of a term is cancelled when a newer term comes, which waits for it.
func TestTermsDoNotOverlapInAResource(t *testing.T) {
	entered, late := make(chan struct{}, 2), make(chan error, 1)
	_, conn := resource(t, func(ctx context.Context) (string, error) {
		if term, _ := fence.FromContext(ctx); term.Number == 7 {
			entered <- struct{}{}
			<-ctx.Done()
			late <- context.Cause(ctx)
			return "", ctx.Err()
		}
		select {
		case err := <-late: // it has left
			late <- err
			return "done", nil
		default:
			return "overlapping", nil
		}
	})
	old := make(chan error, 1)
	go func() {
		old <- errorOf(askIn(leadergrpc.Outgoing(t.Context(), "a", leader.Term{Number: 7, Token: token}), conn, who))
	}()
	<-entered
	got, err := askIn(leadergrpc.Outgoing(t.Context(), "a", leader.Term{Number: 8, Token: token}), conn, who)
	if err != nil || got != "done" {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-late; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the older work ended for %v", err)
	}
	if err := <-old; err == nil {
		t.Error("the older call succeeded")
	}
}

// As behind grpcproof.Unary, whose context carries what was proved.
func TestAGateOfAResourceVetsATermByTheCallsContext(t *testing.T) {
	type proved struct{}
	gate := &fence.Gate{Vet: func(ctx context.Context, m fence.Mark) error {
		if ctx.Value(proved{}) != m {
			return errors.New("no proof")
		}
		return nil
	}}
	unary, _ := leadergrpc.RequireTerm(map[string]*fence.Gate{"a": gate}, leadergrpc.ServerOptions{})
	term := leader.Term{Number: 7, Token: token}
	call := func(ctx context.Context) error {
		md := metadata.Pairs(leadergrpc.KeyGroup, "a", leadergrpc.KeyTerm, "7", leadergrpc.KeyToken, token)
		_, err := unary(metadata.NewIncomingContext(ctx, md), nil, &grpc.UnaryServerInfo{FullMethod: who},
			func(context.Context, any) (any, error) { return "done", nil })
		return err
	}
	if err := call(t.Context()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a proof: %v", err)
	}
	if err := call(context.WithValue(t.Context(), proved{}, fence.MarkOf(term))); err != nil {
		t.Errorf("with a proof: %v", err)
	}
	if err := call(t.Context()); err != nil {
		t.Errorf("in the term that is in: %v", err)
	}
}

// A handler that forwards the metadata, or logs it, must not give the token
// away.
func TestTheHandlerOfAResourceGetsTheTermAndNotTheMetadataWithItsToken(t *testing.T) {
	want := leader.Term{Number: 7, Token: token}
	_, conn := resource(t, func(ctx context.Context) (string, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		term, _ := fence.FromContext(ctx)
		if term != want || len(md.Get(leadergrpc.KeyToken)) != 0 || len(md.Get(leadergrpc.KeyTerm)) != 1 || len(md.Get("trace")) != 1 {
			t.Errorf("term %v, metadata %v", term, md)
		}
		group, stated, err := leadergrpc.Stated(ctx)
		if err != nil || group != "a" || stated != want {
			t.Errorf("stated: %q, %v, %v", group, stated, err)
		}
		return "done", nil
	})
	for _, method := range []string{who, listen} {
		ctx := leadergrpc.Outgoing(metadata.AppendToOutgoingContext(t.Context(), "trace", "x"), "a", want)
		if _, err := askIn(ctx, conn, method); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestALeaderStatesItsTerm(t *testing.T) {
	x, _ := resource(t, nil)
	x.serve = func(ctx context.Context) (string, error) {
		group, term, err := leadergrpc.Stated(ctx)
		return group + " " + term.String(), err
	}
	unary, stream := leadergrpc.StateTerm("reports")
	l := listenTCP(t)
	serveOn(t, l, x)
	conn := dial(t, l.Addr().String(), grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream))
	a := leads(t, stand(t, newStore(), config("a"), nil))
	var late context.Context
	err := a.Do(metadata.AppendToOutgoingContext(t.Context(), leadergrpc.KeyTerm, "1"), func(ctx context.Context) error {
		late = ctx //nolint:fatcontext // it is looked at below, when it is over
		for _, method := range []string{who, listen} {
			if got, err := askIn(ctx, conn, method); err != nil || got != "reports "+a.Term().String() {
				t.Errorf("%s: %q, %v", method, got, err)
			}
		}
		return a.Stop()
	})
	if err != nil {
		t.Fatal(err)
	}
	runs := x.runs.Load()
	for _, method := range []string{who, listen} {
		if _, err := askIn(t.Context(), conn, method); !errors.Is(err, leadergrpc.ErrNoTerm) {
			t.Errorf("%s without a term: %v", method, err)
		}
		if _, err := askIn(late, conn, method); !errors.Is(err, leader.ErrNotLeader) {
			t.Errorf("%s in a term that is over: %v", method, err)
		}
	}
	if x.runs.Load() != runs {
		t.Error("something was sent")
	}
}
