package election_test

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
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// impatient gives up reconnecting after two attempts, as nats.go does by
// default after sixty.
func impatient() []nats.Option {
	return []nats.Option{nats.MaxReconnects(2), nats.ReconnectWait(time.Millisecond)}
}

// A server is gone for longer than the client library tries to find it: Run, an
// election, a manager and an observation end, and say why.
func TestAConnectionThatGaveUpEndsAllThatRanOnIt(t *testing.T) {
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

// await receives what is to come in time.
func await[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-natslab.Within(t).Done():
		t.Fatal("it never came")
	}
	return v
}
