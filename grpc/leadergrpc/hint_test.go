package leadergrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

// refuses is a handler that names another leader, as any server can.
func refuses(t *testing.T, group, id, address string, term uint64) handler {
	t.Helper()
	s, err := status.New(codes.FailedPrecondition, "ask another").WithDetails(&errdetails.ErrorInfo{
		Reason: leadergrpc.ReasonNotLeader, Domain: leadergrpc.Domain,
		Metadata: map[string]string{"group": group, "leader": id, "address": address, "term": strconv.FormatUint(term, 10)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(context.Context) (string, error) { return "", s.Err() }
}

func TestAServersWordMovesCallsForALaterTermOfTheGroupAlone(t *testing.T) {
	for name, c := range map[string]struct {
		group, id, host string
		term            uint64
		moves           bool
	}{
		"a later term":          {"reports", "z", "127.0.0.1", 6, true},
		"the same term":         {"reports", "z", "127.0.0.1", 5, false},
		"a term of no election": {"reports", "z", "127.0.0.1", fence.MaxTerm + 1, false},
		"an earlier term":       {"reports", "z", "127.0.0.1", 4, false},
		"another group's":       {"other", "z", "127.0.0.1", 6, false},
		"one that names nobody": {"reports", "", "127.0.0.1", 6, false},
		"one without a host":    {"reports", "z", "", 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			z := &instance{id: "z", serve: says("z")}
			at := listenTCP(t)
			serveOn(t, at, z, unguarded())
			_, port, err := net.SplitHostPort(at.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			a := &instance{id: "a", serve: refuses(t, c.group, c.id, net.JoinHostPort(c.host, port), c.term)}
			l := listenTCP(t)
			a.address = l.Addr().String()
			serveOn(t, l, a, unguarded())
			opts := leadergrpc.BuilderOptions{RetryFor: 300 * time.Millisecond}
			if c.moves {
				opts.RetryFor = patience
			}
			seen := make(told)
			conn := reach(t, seen.observe, opts)
			conn.Connect()
			seen <- a.is(5)
			answer, err := ask(t, conn, who, grpc.WaitForReady(true))
			if moved := answer == "z"; moved != c.moves {
				t.Errorf("%q, %v", answer, err)
			}
		})
	}
}

// once refuses the first call, and serves the others.
func once(refuse handler, id string) handler {
	var refused atomic.Bool
	return func(ctx context.Context) (string, error) {
		if !refused.Swap(true) {
			return refuse(ctx)
		}
		return id, nil
	}
}

// The observer knows the leader all along, and yields changes alone.
func TestALeaderThatWasNamedAndCannotBeReachedIsLeftForTheObserved(t *testing.T) {
	dead := listenTCP(t)
	nobody := dead.Addr().String()
	_ = dead.Close()
	a := &instance{id: "a", serve: once(refuses(t, "reports", "z", nobody, 9), "a")}
	l := listenTCP(t)
	a.address = l.Addr().String()
	serveOn(t, l, a, unguarded())
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: patience})
	conn.Connect()
	seen <- a.is(5)
	for i := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if got, err := askIn(ctx, conn, who, grpc.WaitForReady(true)); err != nil || got != "a" {
			t.Errorf("call %d: %q, %v", i, got, err)
		}
		cancel()
	}
}

// The server that named it may have been wrong.
func TestALeaderThatWasNamedAndDoesNotServeIsLeftWhenTheCallGivesUp(t *testing.T) {
	z, a := &instance{id: "z", serve: refuses(t, "reports", "", "", 0)}, &instance{id: "a"}
	at, l := listenTCP(t), listenTCP(t)
	a.address = l.Addr().String()
	a.serve = once(refuses(t, "reports", "z", at.Addr().String(), 9), "a")
	serveOn(t, at, z, unguarded())
	serveOn(t, l, a, unguarded())
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: 300 * time.Millisecond})
	conn.Connect()
	seen <- a.is(5)
	if _, err := ask(t, conn, who, grpc.WaitForReady(true)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the call that was sent there: %v", err)
	}
	if got, err := ask(t, conn, who, grpc.WaitForReady(true)); err != nil || got != "a" {
		t.Errorf("the next one: %q, %v", got, err)
	}
}

func TestStatedTermsAreChecked(t *testing.T) {
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(leadergrpc.KeyGroup, "a", leadergrpc.KeyTerm, "0", leadergrpc.KeyToken, ""))
	if _, _, err := leadergrpc.Stated(ctx); !errors.Is(err, fence.ErrInvalid) {
		t.Error(err)
	}
}

func TestAResourcesOwnTroubleIsNotRevealed(t *testing.T) {
	own := errors.New("dial db-7.internal")
	for err, want := range map[error]codes.Code{
		leadergrpc.RefuseTerm(own): codes.Unavailable,
		leadergrpc.RefuseTerm(fmt.Errorf("%w: %w", fence.ErrRefused, own)): codes.PermissionDenied,
	} {
		if status.Code(err) != want || strings.Contains(err.Error(), "db-7") {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// A leader of before learns by which term it was succeeded, where that is
// known.
func TestARefusalOfATermNamesTheLatest(t *testing.T) {
	for _, c := range []struct {
		err  error
		term string
	}{{&fence.StaleError{Refused: fence.Mark{Term: 6}, Last: fence.Mark{Term: 7}}, "7"}, {fmt.Errorf("seen: %w", fence.ErrStale), ""}} {
		s := status.Convert(leadergrpc.RefuseTerm(c.err))
		var info *errdetails.ErrorInfo
		for _, d := range s.Details() {
			info, _ = d.(*errdetails.ErrorInfo)
		}
		if s.Code() != codes.FailedPrecondition || info.GetReason() != leadergrpc.ReasonStaleTerm || info.GetMetadata()["term"] != c.term {
			t.Errorf("%v: %v, %v", c.err, s, info)
		}
	}
}

func TestAStatedTermLeavesOtherMetadataAlone(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(t.Context(), "trace", "x", leadergrpc.KeyTerm, "1")
	md, _ := metadata.FromOutgoingContext(leadergrpc.Outgoing(ctx, "a", leader.Term{Number: 7, Token: "t"}))
	if got := md.Get("trace"); len(got) != 1 || got[0] != "x" {
		t.Errorf("%v", md)
	}
	if got := md.Get(leadergrpc.KeyTerm); len(got) != 1 || got[0] != "7" {
		t.Errorf("%v", md)
	}
}

func TestAStreamThatNeedsNoTermIsServedWithoutOne(t *testing.T) {
	_, stream := leadergrpc.RequireTerm(nil, leadergrpc.ServerOptions{Local: func(method string) bool { return method == listen }})
	ran := false
	err := stream(nil, nil, &grpc.StreamServerInfo{FullMethod: listen}, func(any, grpc.ServerStream) error { ran = true; return nil })
	if err != nil || !ran {
		t.Errorf("%v; ran: %v", err, ran)
	}
}

// Channels of one builder share an observer, which ends with the last of them.
func TestAChannelThatClosesLeavesTheOthersTheirNews(t *testing.T) {
	a, b := &instance{id: "a"}, &instance{id: "b"}
	for _, x := range []*instance{a, b} {
		l := listenTCP(t)
		x.address = l.Addr().String()
		serveOn(t, l, x, unguarded())
	}
	seen := make(told)
	builder := leadergrpc.NewBuilder(seen.observe, leadergrpc.BuilderOptions{})
	first, second := dial(t, "leader:///reports", builder.DialOptions()...), dial(t, "leader:///reports", builder.DialOptions()...)
	first.Connect()
	second.Connect()
	seen <- a.is(5)
	answeredBy(t, first, a)
	answeredBy(t, second, a)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case seen <- b.is(6):
	case <-time.After(patience):
		t.Fatal("nobody observes any more")
	}
	for end := time.Now().Add(patience); ; {
		answer, err := ask(t, second, who)
		if err == nil && answer == "b" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%q, %v", answer, err)
		}
	}
}
