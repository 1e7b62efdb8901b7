package elections_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestLeaderThatIsCutOffStopsBeforeItsSuccessorLeads(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	cut, sound := natslab.Connect(t, proxy.URL()), srv.Connect(t)
	g := newGroup(t, "b")
	a := g.join(cut, "a", ttl(short))
	g.leader()
	b := g.join(sound, "b", ttl(short))
	a.succeed() // a stall may have ended its term meanwhile
	b.follows(a)
	first := a.Term()

	proxy.Hold(natslab.ToServer, natslab.ToClient)
	g.await("b leads", b.IsLeader)
	if a.IsLeader() {
		t.Error("a still leads")
	}
	g.await("a is notified", func() bool { return strings.HasSuffix(a.told(), "promote demote") })
	if !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}

	// The writes that a sent into the black hole arrive now, and must not
	// depose b.
	proxy.Resume()
	a.follows(b)
}

// A leader that has lost its connection stops after the grace, and before its
// lease is over for the others.
func TestLeaderWithoutAConnectionIsDemotedAfterTheGrace(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	proxy := natslab.NewRelay(t, srv.Addr())
	g := newGroup(t, "b")
	grace := func(c *leader.ElectionConfig) { c.DisconnectGracePeriod = 200 * time.Millisecond }
	a := g.join(natslab.Connect(t, proxy.URL()), "a", grace)
	a.leads()
	if s := a.Status().ConnectionStatus; s != "CONNECTED" {
		t.Errorf("connection %s", s)
	}
	proxy.Cut()
	g.await("a is demoted", func() bool { return a.losses() > 0 })
	if why, s := a.lost(), a.Status().ConnectionStatus; why != leader.ReasonDisconnected || s != "DISCONNECTED" {
		t.Errorf("demoted by %q, connection %s", why, s)
	}
	proxy.Resume()
	a.leads()
}

func TestStartWithoutAServerWaitsForIt(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	g := newGroup(t, "b")
	srv.Stop()
	natslab.Eventually(t, "the connection is lost", func(context.Context) error {
		if nc.IsConnected() {
			return nats.ErrConnectionClosed
		}
		return nil
	})
	a := g.join(nc, "a")
	srv.Run()
	g.await("a leads", a.IsLeader)
}

func TestTermOutlivesAServerRestart(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	b := g.join(srv.Connect(t), "b")
	b.follows(a)
	term := a.Term()
	renewals := a.count("renew ok")
	srv.Restart()
	g.await("a renews after the restart", func() bool { return a.count("renew ok") > renewals })
	if a.Term() != term {
		t.Errorf("term %v, was %v", a.Term(), term)
	}
	g.handover(a, b)
	g.handover(b, a)
}

func TestOutageLongerThanTheLeaseEndsTheTermAndStrandsNobody(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a", ttl(short))
	g.leader()
	b := g.join(srv.Connect(t), "b", ttl(short))
	g.await("b hears who leads", func() bool { return b.LeaderID() != "" })
	first := g.leader().Term()
	srv.Stop()
	for _, m := range []*member{a, b} {
		g.await(m.id+" is demoted, if it led", func() bool { return !strings.HasSuffix(m.told(), "promote") })
	}
	if a.IsLeader() || b.IsLeader() {
		t.Error("somebody leads without a server")
	}
	srv.Run()
	if again := g.leader().Term(); !again.Supersedes(first) {
		t.Errorf("term %v after %v", again, first)
	}
}

func TestTermOutlivesLostConnections(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	b := g.join(srv.Connect(t), "b")
	b.follows(a)
	term := a.Term()
	for range 3 {
		renewals := a.count("renew ok")
		srv.DropClients()
		g.await("a renews", func() bool { return a.count("renew ok") > renewals })
	}
	if a.Term() != term {
		t.Errorf("term %v, was %v", a.Term(), term)
	}
	g.handover(a, b)
}

// The caller's connection may keep what is published while it is down, and send
// it after reconnecting. Nothing of that may make or depose a leader.
func TestReconnectBufferMakesNoLeader(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	buffered := natslab.Connect(t, proxy.URL(), nats.ReconnectBufSize(8<<20))
	g := newGroup(t, "b")
	a := g.join(buffered, "a", ttl(short))
	g.leader()
	b := g.join(srv.Connect(t), "b", ttl(short))
	g.await("b hears who leads", func() bool { return b.LeaderID() != "" })
	for range 3 {
		old := g.leader()
		proxy.Hold(natslab.ToServer) // the client still believes in its connection
		if old == a {
			g.await("b leads", b.IsLeader)
		}
		proxy.Cut()
		proxy.Resume()
		g.await("a is connected", func() bool { return a.Status().ConnectionStatus == "CONNECTED" })
		g.await("somebody leads", func() bool { return a.IsLeader() || b.IsLeader() })
		if b.IsLeader() {
			g.await("a follows", func() bool { return a.LeaderID() == "b" || a.IsLeader() })
			a.succeed()
		}
	}
}

// impatient gives up reconnecting after two attempts, as nats.go does by
// default after sixty.
func impatient() []nats.Option {
	return []nats.Option{nats.MaxReconnects(2), nats.ReconnectWait(time.Millisecond)}
}

// A server is gone for longer than the client library tries to find it: Run, an
// election, a manager and an observation end, and return the reason.
func TestConnectionThatGaveUpEndsAllThatRanOnIt(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	cfg := leader.ElectionConfig{
		Bucket: "b", BucketAutoCreate: true, Group: "g", InstanceID: "a", TTL: long, HeartbeatInterval: time.Second,
		AcquireGrace: leader.GraceOff,
	}
	var mu sync.Mutex
	var warned []string
	cfg.Hooks.Note = func(n leader.Note) {
		mu.Lock()
		defer mu.Unlock()
		if n.Kind == leader.NoteWarning {
			warned = append(warned, n.Text)
		}
	}
	leads := make(chan struct{})
	ended := map[string]chan error{}
	begin := func(what string, f func(nc *nats.Conn) error) {
		nc, end := srv.Connect(t, impatient()...), make(chan error, 1)
		ended[what] = end
		go func() { end <- f(nc) }()
	}
	begin("Run", func(nc *nats.Conn) error {
		return leader.Run(t.Context(), nc, cfg, func(ctx context.Context, _ leader.Term) error {
			close(leads)
			<-ctx.Done()
			return nil
		})
	})
	await(t, leads)

	cfg.Hooks, cfg.InstanceID = leader.Hooks{}, "b"
	lost := srv.Connect(t, impatient()...)
	e, err := leader.NewElection(lost, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	livez := func() int {
		w := httptest.NewRecorder()
		probe.Handler(e, probe.Options{Window: natslab.Patience}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", http.NoBody))
		return w.Code
	}
	if code := livez(); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}

	roles := cfg
	roles.Group = ""
	m, err := leader.NewRoleManager(srv.Connect(t, impatient()...), leader.RoleManagerConfig{Election: roles})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	present := make(chan struct{}, 8)
	begin("ObserveFunc", func(nc *nats.Conn) error {
		return leader.ObserveFunc(t.Context(), nc, "b", "g", leader.Observer{
			Present: func() { present <- struct{}{} }, Failed: func(error) {},
		})
	})
	await(t, present)

	srv.Stop()
	for what, end := range ended {
		if err := await(t, end); !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	await(t, e.Done())
	await(t, m.Done())
	if !errors.Is(e.Err(), leader.ErrConnectionClosed) || !errors.Is(m.Err(), leader.ErrConnectionClosed) {
		t.Errorf("%v, %v", e.Err(), m.Err())
	}
	if code := livez(); code != http.StatusServiceUnavailable {
		t.Errorf("/livez: %d on a closed connection", code)
	}
	if s := e.Status(); s.ConnectionStatus != "CLOSED" || s.IsLeader {
		t.Errorf("on a closed connection: %+v", s)
	}
	again, err := leader.NewElection(lost, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Start(t.Context()); !errors.Is(err, leader.ErrConnectionClosed) {
		t.Errorf("another election on that connection: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(warned, "\n"); !strings.Contains(all, "gives up after 2 attempts") {
		t.Errorf("warned of %q at the start", all)
	}
}
