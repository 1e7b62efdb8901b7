package leadergrpc_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

// A handler that calls another group's leader, or its own, returns the refusal
// of that call. It has run by then, and perhaps done half of its work.
func TestACallIsNotSentAgainWhoseHandlerPassesARefusalOn(t *testing.T) {
	for _, group := range []string{"other", "reports"} {
		st := newStore()
		a := leads(t, stand(t, st, config("a"), refuses(t, group, "z", "127.0.0.1:1", 9)))
		conn := reach(t, leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{RetryFor: 300 * time.Millisecond})
		for _, method := range []string{who, listen, local} {
			a.runs.Store(0)
			_, err := ask(t, conn, method)
			if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != "ask another" || a.runs.Load() != 1 {
				t.Errorf("%s of %s: %v after %d runs", method, group, err, a.runs.Load())
			}
			if r, refused := leadergrpc.RefusalOf(err); refused {
				t.Errorf("%s of %s: reports that no handler ran: %+v", method, group, r)
			}
		}
	}
}

// A method that every instance serves calls another group's leader.
func TestOnlyARefusalOfTheGroupThatIsCalledIsSentAgain(t *testing.T) {
	x := &instance{id: "x", serve: refuses(t, "other", "z", "127.0.0.1:1", 9)}
	l := listenTCP(t)
	x.address = l.Addr().String()
	serveOn(t, l, x, unguarded())
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: 300 * time.Millisecond})
	conn.Connect()
	seen <- x.is(5)
	seen <- x.is(5)
	if _, err := ask(t, conn, who); status.Code(err) != codes.FailedPrecondition || x.runs.Load() != 1 {
		t.Errorf("%v after %d runs", err, x.runs.Load())
	}
}
