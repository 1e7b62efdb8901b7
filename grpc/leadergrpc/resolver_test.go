package leadergrpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"iter"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

// unguarded lets an instance serve whether it leads or not, so that only the
// client decides where a call goes.
func unguarded() grpc.ServerOption { return grpc.ConnectionTimeout(patience) }

// The connection to the first leader stays open all the time, and a call is in
// flight on it.
func TestNewCallsMoveWhileTheOldConnectionIsOpen(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	hold := func(context.Context) (string, error) {
		select {
		case entered <- struct{}{}:
			<-finish
		default:
		}
		return "a", nil
	}
	a := &instance{id: "a", serve: hold}
	b := &instance{id: "b"}
	for _, x := range []*instance{a, b} {
		l := listenTCP(t)
		x.address = l.Addr().String()
		serveOn(t, l, x, unguarded())
	}
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{})
	conn.Connect()
	seen <- a.is(5)
	slow := calling(t, conn, grpc.WaitForReady(true))
	<-entered
	seen <- b.is(9)
	// The next send proves that the observer's report was handled.
	seen <- b.is(9)
	for range 20 {
		answeredBy(t, conn, b)
	}
	close(finish)
	if got := <-slow; got != "a" {
		t.Errorf("the call that was under way: %s", got)
	}
	if n := a.runs.Load(); n != 1 {
		t.Errorf("%d calls went to the old leader", n)
	}
}

func TestWithoutALeaderCallsWaitOrFailByTheirOptions(t *testing.T) {
	st := newStore()
	conn := reach(t, leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{})
	_, err := ask(t, conn, who)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `nobody leads group "reports": absent`) {
		t.Errorf("%v", err)
	}
	waiting := calling(t, conn, grpc.WaitForReady(true))
	a := leads(t, stand(t, st, config("a"), nil))
	if got := <-waiting; got != "a" {
		t.Errorf("the call that waits: %s", got)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	// Its server still runs. It is news of the vacancy that calls fail for.
	end := time.Now().Add(patience)
	told := func(err error) bool {
		return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), `nobody leads group "reports": stopped`)
	}
	for err = nil; time.Now().Before(end) && !told(err); {
		_, err = askOnce(t, conn)
	}
	if !told(err) {
		t.Errorf("after the leader has stopped: %v", err)
	}
}

// askOnce calls for a short time only.
func askOnce(t *testing.T, conn *grpc.ClientConn) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	return askIn(ctx, conn, who)
}

func TestARecordWithoutAddressLeadsNowhere(t *testing.T) {
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{})
	conn.Connect()
	seen <- leader.LeaderInfo{Group: "reports", ID: "a", Term: 5}
	if _, err := ask(t, conn, who); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "states no address") {
		t.Errorf("%v", err)
	}
}

// A server that states what it listens on, at every address of its machine, must
// not lead each client to the client's own machine: there may be another server.
func TestAnAddressWithoutAHostLeadsNowhere(t *testing.T) {
	l := listenTCP(t)
	serveOn(t, l, &instance{id: "x", serve: says("x")}, unguarded())
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"", "0.0.0.0", "[::]", "[::ffff:0.0.0.0]"} {
		seen := make(told)
		conn := reach(t, seen.observe, leadergrpc.BuilderOptions{})
		conn.Connect()
		seen <- leader.LeaderInfo{Group: "reports", ID: "a", Term: 5, Address: host + ":" + port}
		if x, err := ask(t, conn, who); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "names no host") {
			t.Errorf("%s:%s: %q, %v", host, port, x, err)
		}
	}
}

func TestTheServiceConfigComesFromTheRecord(t *testing.T) {
	st := newStore()
	cfg := config("a")
	cfg.ConnectionParams = []byte(`{"methodConfig":[{"name":[{"service":"lab.Lab"}],"waitForReady":true}]}`)
	a := leads(t, stand(t, st, cfg, nil))
	conn := reach(t, leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{})
	answeredBy(t, conn, a)
	if c := conn.GetMethodConfig(who); c.WaitForReady == nil || !*c.WaitForReady {
		t.Errorf("%+v", c)
	}
	// The next leader's parameters are another program's affair. Calls go
	// there, by the service config that the channel has, which also makes them
	// wait.
	cfg = config("b")
	cfg.ConnectionParams = []byte("\x00\xff")
	b := stand(t, st, cfg, nil)
	if err := a.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t, conn, who); err != nil || got != "b" {
		t.Errorf("%q, %v", got, err)
	}
	if c := conn.GetMethodConfig(who); c.WaitForReady == nil {
		t.Errorf("%+v", c)
	}
	leads(t, b)
}

func TestParametersOfAnotherKindGiveNoServiceConfig(t *testing.T) {
	st := newStore()
	cfg := config("a")
	cfg.ConnectionParams = []byte("\x00\xff")
	a := leads(t, stand(t, st, cfg, nil))
	answeredBy(t, reach(t, leadergrpc.ObserveStore(st), leadergrpc.BuilderOptions{}), a)
}

// The observer may be cut off, and not the leader.
func TestASilentLeaderKeepsItsCalls(t *testing.T) {
	a, b := leads(t, stand(t, newStore(), config("a"), nil)), leads(t, stand(t, newStore(), config("b"), nil))
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{})
	conn.Connect()
	seen <- a.is(5)
	answeredBy(t, conn, a)
	seen <- leader.LeaderInfo{Group: "reports", Term: 5, Reason: leader.ReasonExpired}
	seen <- leader.LeaderInfo{Group: "reports", Term: 5, Reason: leader.ReasonExpired}
	answeredBy(t, conn, a)
	seen <- b.is(9)
	seen <- b.is(9)
	answeredBy(t, conn, b)
}

func TestOptionsDecideTheAddressAndNameOfALeader(t *testing.T) {
	a := leads(t, stand(t, newStore(), config("a"), nil))
	seen := make(told)
	conn := reach(t, seen.observe, leadergrpc.BuilderOptions{
		Address:       func(l leader.LeaderInfo) string { return l.Meta["grpc"] },
		ServiceConfig: func(l leader.LeaderInfo) string { return l.Meta["config"] },
	})
	conn.Connect()
	seen <- leader.LeaderInfo{
		Group: "reports", ID: "a", Term: 1, Address: "http://elsewhere", ConnectionParams: []byte("not this"),
		Meta: map[string]string{"grpc": a.address, "config": `{"methodConfig":[{"name":[{}],"timeout":"77s"}]}`},
	}
	answeredBy(t, conn, a)
	if c := conn.GetMethodConfig(who); c.Timeout == nil || *c.Timeout != 77*time.Second {
		t.Errorf("%+v", c)
	}
}

// The certificate is good for example.com.
func TestTheCertificateIsCheckedForTheConfiguredName(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	a := &instance{id: "a"}
	l := listenTCP(t)
	a.address = l.Addr().String()
	serveOn(t, l, a, grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
	for name, good := range map[string]bool{"": false, "example.com": true, "example.org": false} {
		seen := make(told)
		b := leadergrpc.NewBuilder(seen.observe, leadergrpc.BuilderOptions{ServerName: func(leader.LeaderInfo) string { return name }})
		conn, err := grpc.NewClient("leader:///reports", append(b.DialOptions(),
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13})))...)
		if err != nil {
			t.Fatal(err)
		}
		conn.Connect()
		seen <- a.is(1)
		if got, err := ask(t, conn, who); (err == nil) != good || good && got != "a" {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		_ = conn.Close()
	}
}

func TestFailedObserverEndsTheWait(t *testing.T) {
	failing := func(context.Context, string) iter.Seq2[leader.LeaderInfo, error] {
		return func(yield func(leader.LeaderInfo, error) bool) {
			yield(leader.LeaderInfo{}, errors.New("no permission"))
		}
	}
	conn := reach(t, failing, leadergrpc.BuilderOptions{})
	if _, err := ask(t, conn, who); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("%v", err)
	}
}

func TestTargetsThatNameNoGroupAreRefused(t *testing.T) {
	b := leadergrpc.NewBuilder(told(nil).observe, leadergrpc.BuilderOptions{})
	for _, target := range []string{"leader:///", "leader:///a.*", "leader://host/reports", "leader:///>"} {
		conn := dial(t, target, b.DialOptions()...)
		if _, err := ask(t, conn, who); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "must be leader:///GROUP") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// A group is observed once for all channels of a builder, and no longer than
// one is open.
func TestChannelsShareAnObserverAndEndIt(t *testing.T) {
	st := newStore()
	a := leads(t, stand(t, st, config("a"), nil))
	var begun int
	ended := make(chan struct{}, 2)
	b := leadergrpc.NewBuilder(func(ctx context.Context, group string) iter.Seq2[leader.LeaderInfo, error] {
		begun++
		return func(yield func(leader.LeaderInfo, error) bool) {
			for info, err := range leader.ObserveWithStore(ctx, st, group) {
				if !yield(info, err) {
					break
				}
			}
			ended <- struct{}{}
		}
	}, leadergrpc.BuilderOptions{})
	first, second := dial(t, "leader:///reports", b.DialOptions()...), dial(t, "leader:///reports", b.DialOptions()...)
	answeredBy(t, first, a)
	answeredBy(t, second, a)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	answeredBy(t, second, a)
	if begun != 1 {
		t.Errorf("%d observers", begun)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	default:
		t.Error("the observer outlives the last channel")
	}
	// A channel that is opened afterwards starts another.
	answeredBy(t, dial(t, "leader:///reports", b.DialOptions()...), a)
	if begun != 2 {
		t.Errorf("%d observers", begun)
	}
}
