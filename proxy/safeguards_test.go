package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// told reports whether those who wait for a change were woken.
func told(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

func TestALeaderThatMovesIsConnectedToWhereItIs(t *testing.T) {
	r := newTestRoute(t, 0)
	a := led("a", 1, time.Hour)
	a.Address = "db-1:1"
	r.lead(a)
	_, _, changed := r.current()
	a.Address = "db-2:1"
	r.lead(a)
	if target, info, _ := r.current(); target == nil || info.Address != "db-2:1" || !told(changed) || r.Stats().Leader.Address != "db-2:1" {
		t.Errorf("it is at %q, notified %v, and %+v", info.Address, told(changed), r.Stats())
	}
}

func TestARenewalCountsForItsOwnTermAlone(t *testing.T) {
	r := newTestRoute(t, 0)
	r.renewed(led("a", 1, time.Hour)) // before any report
	if target, _, _ := r.current(); target != nil {
		t.Errorf("%+v leads", target)
	}
	r.lead(led("a", 1, time.Hour))
	r.renewed(led("b", 1, 2*time.Hour))
	r.renewed(led("a", 2, 2*time.Hour))
	_, info, changed := r.current()
	if time.Until(info.Until) > time.Hour || info.ID != "a" || info.Term != 1 {
		t.Errorf("%+v leads", info)
	}
	r.renewed(led("a", 1, 2*time.Hour))
	if _, info, _ := r.current(); time.Until(info.Until) < time.Hour {
		t.Errorf("it leads for %v", time.Until(info.Until))
	}
	if told(changed) {
		t.Error("nothing has changed for those who wait")
	}
	r.lead(leader.LeaderInfo{Group: "g", Term: 1})
	if s := r.Stats(); s.Leader.ID != "" {
		t.Errorf("nobody leads, and the numbers contain %+v", s.Leader)
	}
}

// Each Serve has its own route, whose end does not end the others.
func TestWhereOneListenerEndsTheNumbersStillSayWhoLeads(t *testing.T) {
	first := newTestRoute(t, 0)
	second := newRoute(first.Proxy)
	for _, r := range []*route{first, second} {
		r.lead(leader.LeaderInfo{Group: "g"})
		r.lead(led("a", 1, time.Hour))
	}
	second.close()
	if s := first.Stats(); s.Leader.ID != "a" {
		t.Errorf("%+v leads", s.Leader)
	}
	first.close()
	if s := first.Stats(); s.Leader.ID != "" {
		t.Errorf("nobody serves, and %+v leads", s.Leader)
	}
}

func TestWaitersHearOfTheFirstRenewalOfAFoundRecord(t *testing.T) {
	p, err := newProxy("g", Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRoute(p)
	r.lead(led("a", 1, time.Hour))
	target, _, changed := r.current()
	if target != nil {
		t.Fatal("a record that was found may be old")
	}
	r.renewed(led("a", 1, time.Hour))
	if target, _, _ = r.current(); target == nil || !told(changed) || r.Stats().Leader.ID != "a" {
		t.Errorf("%+v leads, notified %v", target, told(changed))
	}
}

// join joins a connection to the leader, and returns its two far ends.
func join(t *testing.T, r *route) (target *target, client, server net.Conn) {
	t.Helper()
	c1, client := net.Pipe()
	c2, server := net.Pipe()
	target, _, _ = r.current()
	if !r.join(&link{target: target, client: c1, leader: c2}) {
		t.Fatal("it leads")
	}
	return target, client, server
}

// open reports whether nobody has closed a connection.
func open(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF)
}

func TestTheGraceEndsAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRoute(t, time.Second)
		r.lead(led("a", 1, time.Hour))
		_, client, server := join(t, r)
		r.lead(led("b", 2, time.Hour))
		time.Sleep(time.Second - time.Millisecond)
		if !open(client) || !open(server) {
			t.Error("cut within the grace")
		}
		time.Sleep(2 * time.Millisecond)
		if open(client) || open(server) || r.count.cut.Load() != 1 || len(r.deposed) != 0 {
			t.Errorf("client open %v, leader open %v, %d cut, %d left", open(client), open(server), r.count.cut.Load(), len(r.deposed))
		}
	})
}

func TestTheEndWaitsForNoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRoute(t, time.Hour)
		r.lead(led("a", 1, time.Hour))
		_, oldClient, oldLeader := join(t, r)
		r.lead(led("b", 2, time.Hour))
		target, client, server := join(t, r)
		r.close()
		if open(oldClient) || open(oldLeader) || open(client) || open(server) || target.over.Err() == nil {
			t.Error("a connection is open, or one is being made")
		}
		if cut, drained := r.count.cut.Load(), r.count.drained.Load(); cut != 1 || drained != 1 {
			t.Errorf("%d of a former leader and %d of the present one, want one each", cut, drained)
		}
		if now, _, _ := r.current(); now != nil || r.join(&link{target: target}) {
			t.Error("a connection may begin after the end")
		}
		time.Sleep(2 * time.Hour)
		if cut := r.count.cut.Load(); cut != 1 {
			t.Errorf("%d cut", cut)
		}
	})
}

func TestALeaseThatRunsOutWhileOneConnectsLetsNobodyJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRoute(t, 0)
		r.lead(led("a", 1, time.Second))
		target, _, _ := r.current()
		time.Sleep(time.Second)
		if r.join(&link{target: target}) {
			t.Error("the link was accepted although the lease is over")
		}
	})
}

// passing is an error that passes.
type passing struct{ error }

func (passing) Temporary() bool { return true }

// A troubled listener fails now and then, and finally fails permanently.
type troubled struct {
	at

	accept func() (net.Conn, error)
}

func (l troubled) Accept() (net.Conn, error) { return l.accept() }

func TestServeSurvivesPassingErrorsAndReturnsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, calls := errors.New("broken"), 0
		ln := troubled{at{&net.UnixAddr{}}, func() (net.Conn, error) {
			calls++
			if calls < 20 {
				return nil, passing{errors.New("too many open files")}
			}
			return nil, broken
		}}
		p, err := newProxy("g", Options{}, func(ctx context.Context, _ leader.Observer) error { <-ctx.Done(); return nil })
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		err = p.Serve(t.Context(), ln)
		// It waits longer and longer, up to half a second.
		if took := time.Since(begun); !errors.Is(err, broken) || calls != 20 || took < 6*time.Second || took > 10*time.Second {
			t.Errorf("%v after %d tries in %v", err, calls, took)
		}
	})
}

func TestServeEndsWhenNoLeaderCanBeKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		ln := troubled{at{&net.UnixAddr{}}, func() (net.Conn, error) { <-closed; return nil, net.ErrClosed }}
		p, err := newProxy("g", Options{}, func(context.Context, leader.Observer) error {
			time.AfterFunc(time.Second, func() { close(closed) }) // as the listener's end does
			return leader.ErrConnectionClosed
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Serve(t.Context(), ln); !errors.Is(err, leader.ErrConnectionClosed) || errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// Nothing would report any more when the leader's term ends.
func TestConnectionsAreCutWhenNoLeaderCanBeKnown(t *testing.T) {
	listen := func() net.Listener {
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		return ln
	}
	backend, own, lost := listen(), listen(), make(chan struct{})
	p, err := newProxy("g", Options{Drain: time.Hour}, func(_ context.Context, o leader.Observer) error {
		a := led("a", 1, time.Hour)
		a.Address = backend.Addr().String()
		o.Leader(leader.LeaderInfo{Group: "g"})
		o.Leader(a)
		<-lost
		return leader.ErrConnectionClosed
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(t.Context(), own) }()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", own.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // a fixture
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	behind, err := backend.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close() //nolint:errcheck // a fixture
	if _, err := behind.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil { // so it is carried
		t.Fatal(err)
	}
	close(lost)
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want a reset", err)
	}
	select {
	case err := <-served:
		if !errors.Is(err, leader.ErrConnectionClosed) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Serve waits for its drain")
	}
}

func TestTheZeroOptionsAreTheDefaults(t *testing.T) {
	o := Options{}.withDefaults()
	if o.Wait != DefaultWait || o.Drain != DefaultDrain || o.DialTimeout != DefaultDialTimeout || o.MaxConns != DefaultMaxConns || o.Logger == nil {
		t.Errorf("%+v", o)
	}
	if err := (Options{Port: -1}).validate("g"); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Error(err)
	}
}
