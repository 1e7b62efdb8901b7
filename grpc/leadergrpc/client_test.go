package leadergrpc_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

// follows waits until a candidate sees another lead.
func follows(t *testing.T, x, other *instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for info := range x.Observe(ctx) {
		if info.ID == other.id {
			return
		}
	}
	t.Fatalf("%s does not follow %s", x.id, other.id)
}

// The client's observer has stopped at the leader before. The refusal names the
// present one.
func TestARefusedCallFollowsTheRefusal(t *testing.T) {
	st := newStore()
	b := leads(t, stand(t, st, config("b"), nil))
	a := stand(t, st, config("a"), nil)
	follows(t, a, b)
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{})
	conn.Connect()
	old := a.is(b.Term().Number - 1)
	seen <- old
	seen <- old
	if got, err := ask(t, conn, who); err != nil || got != "b" || a.runs.Load() != 0 || b.runs.Load() != 1 {
		t.Errorf("%q, %v; %d and %d handlers ran", got, err, a.runs.Load(), b.runs.Load())
	}
	// The observer hears of the end of the old term only now, and then of the
	// new leader, whose calls stay where they are.
	for range 2 { // the second is taken when the first has been
		seen <- leader.LeaderInfo{Group: "reports", Term: old.Term, Reason: leader.ReasonResigned}
	}
	if got, err := ask(t, conn, who); err != nil || got != "b" {
		t.Errorf("%q, %v", got, err)
	}
	seen <- b.is(b.Term().Number)
	seen <- b.is(b.Term().Number)
	if got, err := ask(t, conn, who); err != nil || got != "b" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestARefusedCallWaitsForALeader(t *testing.T) {
	st := newStore()
	a := stand(t, st, config("a"), nil)
	if err := a.Stop(); err != nil { // its server goes on
		t.Fatal(err)
	}
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{})
	conn.Connect()
	seen <- a.is(1)
	answer := calling(t, conn)
	<-a.refused
	b := leads(t, stand(t, newStore(), config("b"), nil))
	for range 2 { // the second is taken when the first has been
		// Another led meanwhile, and left.
		seen <- leader.LeaderInfo{Group: "reports", Term: 2, Reason: leader.ReasonStopped}
	}
	// It goes on waiting while calls that were not refused fail.
	for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
		if _, err := ask(t, conn, who); status.Code(err) != codes.Unavailable {
			t.Errorf("without a leader: %v", err)
		}
	}
	seen <- b.is(9)
	if got := <-answer; got != "b" {
		t.Errorf("%q", got)
	}
}

// A server may still refuse while its record names it as the leader: it does
// not know yet.
func TestARefusedCallIsSentAgainToTheSameServer(t *testing.T) {
	st := newStore()
	b := leads(t, stand(t, st, config("b"), nil))
	a := stand(t, st, config("a"), nil)
	follows(t, a, b)
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{})
	conn.Connect()
	early := a.is(1 << 50)
	seen <- early
	seen <- early
	answer := calling(t, conn)
	<-a.refused
	if err := b.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "a" {
		t.Errorf("%q", got)
	}
}

func TestARefusalIsReturnedWhenTheTimeIsUp(t *testing.T) {
	st := newStore()
	b := leads(t, stand(t, st, config("b"), nil))
	a := stand(t, st, config("a"), nil)
	follows(t, a, b)
	for _, c := range []struct {
		retry time.Duration
		limit time.Duration
	}{{-1, patience}, {20 * time.Millisecond, patience}, {patience, 50 * time.Millisecond}} {
		seen := make(told)
		conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: c.retry})
		conn.Connect()
		early := a.is(1 << 50)
		seen <- early
		seen <- early
		ctx, cancel := context.WithTimeout(t.Context(), c.limit)
		_, err := askIn(ctx, conn, who)
		// On a machine that stalls the time may be up before the call is sent
		// again.
		for c.retry > 0 && status.Code(err) == codes.Unavailable && ctx.Err() == nil {
			_, err = askIn(ctx, conn, who)
		}
		if c.limit == patience && ctx.Err() != nil {
			t.Errorf("%+v: it took as long as the context allows", c)
		}
		cancel()
		_, refused := leadergrpc.RefusalOf(err)
		if n := a.refusals.Swap(0); c.retry < 0 && n != 1 {
			t.Errorf("%+v: sent %d times", c, n)
		}
		if !refused && (c.limit == patience || status.Code(err) != codes.DeadlineExceeded) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if n := a.runs.Load(); n != 0 {
		t.Errorf("%d handlers ran", n)
	}
}

func TestARefusalIsReturnedWhenNobodyComes(t *testing.T) {
	st := newStore()
	a := stand(t, st, config("a"), nil)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: 100 * time.Millisecond})
	conn.Connect()
	seen <- a.is(1)
	answer := make(chan error, 1)
	go func() { answer <- errorOf(ask(t, conn, who)) }()
	<-a.refused
	seen <- leader.LeaderInfo{Group: "reports", Term: 2, Reason: leader.ReasonStopped}
	if err := <-answer; status.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
}

// The next leader does not accept connections: it is known, and frozen or
// behind a firewall.
func TestACallDoesNotWaitForAConnectionWhenTheTimeIsUp(t *testing.T) {
	st := newStore()
	a := stand(t, st, config("a"), nil)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	silent := listenTCP(t) // no server accepts, so no HTTP/2 preface is answered
	defer silent.Close()   //nolint:errcheck // nothing was written
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: 300 * time.Millisecond})
	conn.Connect()
	seen <- a.is(1)
	answer := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { answer <- errorOf(askIn(ctx, conn, who)) }()
	<-a.refused
	seen <- leader.LeaderInfo{Group: "reports", ID: "b", Term: 2, Address: silent.Addr().String()}
	err := <-answer
	if ctx.Err() != nil || status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no connection to a leader in time") {
		t.Errorf("%v; the context: %v", err, ctx.Err())
	}
}

// Interceptors of the caller's own may take their time before a call waits.
func TestACallThatIsHeldUpUntilTheTimeIsUpDoesNotWait(t *testing.T) {
	const retry = 300 * time.Millisecond
	a := stand(t, newStore(), config("a"), nil)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	silent := listenTCP(t)
	defer silent.Close() //nolint:errcheck // nothing was written
	seen, attempts := make(told), 0
	slow := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		attempts++
		if attempts > 1 {
			<-time.After(2 * retry) // the time it takes is the point
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	opts := leadergrpc.NewBuilder(seen.observe, leadergrpc.BuilderOptions{RetryFor: retry}).DialOptions()
	conn := dial(t, "leader:///reports", append(opts, grpc.WithChainUnaryInterceptor(slow))...)
	conn.Connect()
	seen <- a.is(1)
	answer := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { answer <- errorOf(askIn(ctx, conn, who)) }()
	<-a.refused
	seen <- leader.LeaderInfo{Group: "reports", ID: "b", Term: 2, Address: silent.Addr().String()}
	if err := <-answer; ctx.Err() != nil || status.Code(err) != codes.Unavailable && attempts > 1 {
		t.Errorf("after %d attempts: %v; the context: %v", attempts, err, ctx.Err())
	}
}

// Nor is a call sent again that has failed after its time.
func TestACallIsNotSentAgainAfterItsTime(t *testing.T) {
	const retry = 300 * time.Millisecond
	begun := make(chan struct{}, 2)
	x := &instance{id: "x", serve: func(context.Context) (string, error) {
		begun <- struct{}{}
		<-time.After(2 * retry) // the time it takes is the point
		return "", status.Error(codes.Unavailable, "the handler's")
	}}
	l := listenTCP(t)
	x.address = l.Addr().String()
	serveOn(t, l, x, unguarded())
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: retry, Repeatable: func(string) bool { return true }})
	conn.Connect()
	seen <- x.is(5)
	answer := make(chan error, 1)
	go func() { answer <- errorOf(ask(t, conn, who)) }()
	<-begun
	seen <- x.is(6)
	seen <- x.is(6)
	if err := <-answer; status.Code(err) != codes.Unavailable || x.runs.Load() != 1 {
		t.Errorf("%v after %d runs", err, x.runs.Load())
	}
}

// A call that is being served may take as long as it needs.
func TestACallThatIsSentAgainMayOutlastTheTime(t *testing.T) {
	const retry = 500 * time.Millisecond
	st := newStore()
	b := leads(t, stand(t, st, config("b"), func(ctx context.Context) (string, error) {
		select {
		case <-time.After(2 * retry): // the time it takes is the point
			return "b", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}))
	a := stand(t, st, config("a"), nil)
	follows(t, a, b)
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{RetryFor: retry})
	conn.Connect()
	seen <- a.is(1)
	answer := make(chan error, 1)
	go func() { answer <- errorOf(ask(t, conn, who)) }()
	<-a.refused
	seen <- b.is(2)
	err := <-answer
	if _, refused := leadergrpc.RefusalOf(err); err != nil && !refused && status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	if b.runs.Load() > 0 && err != nil {
		t.Errorf("served, and cut short: %v", err)
	}
}

func TestOnlyRepeatableMethodsAreRepeated(t *testing.T) {
	for _, c := range []struct {
		repeatable string
		code       codes.Code
		runs       int32
		want       codes.Code
	}{
		{who, codes.Unavailable, 3, codes.OK},
		{who, codes.Aborted, 1, codes.Aborted},
		{local, codes.Unavailable, 1, codes.Unavailable},
	} {
		var failures atomic.Int32
		st := newStore()
		a := leads(t, stand(t, st, config("a"), func(context.Context) (string, error) {
			if failures.Add(1) < 3 {
				return "", status.Error(c.code, "not yet")
			}
			return "a", nil
		}))
		conn := reach(t, leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{
			Repeatable: func(method string) bool { return method == c.repeatable },
		})
		if _, err := ask(t, conn, who); status.Code(err) != c.want || a.runs.Load() != c.runs {
			t.Errorf("%+v: %v after %d runs", c, err, a.runs.Load())
		}
	}
}

// Whatever but a refusal a call fails with, its handler may have run.
func TestOtherFailuresAreNotSentAgain(t *testing.T) {
	for _, want := range []error{
		status.Error(codes.FailedPrecondition, "of the service"), status.Error(codes.Unavailable, "of the service"),
		status.Error(codes.Aborted, "of the service"),
	} {
		st := newStore()
		a := leads(t, stand(t, st, config("a"), func(context.Context) (string, error) { return "", want }))
		conn := reach(t, leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{})
		if _, err := ask(t, conn, who); status.Code(err) != status.Code(want) || a.runs.Load() != 1 {
			t.Errorf("%v after %d runs, want %v after 1", err, a.runs.Load(), want)
		}
	}
}
