package k8sstore_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// An update with a resourceVersion alone recreates a deleted Lease. With the
// uid it does not.
func deletion(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	admin := newKubectl(t, srv, opts.Namespace)
	s := open(t, srv.Admin(), opts)
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	if err := admin.delete("g"); err != nil {
		t.Fatal(err)
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: rev, Value: []byte("2")})
	trial.Outcome(t, err, store.Conflict)
	if e := trial.Get(t, s, "g"); e.Revision != 0 {
		t.Fatalf("a deleted Lease is back: %+v", e)
	}
	again := trial.Must(t, open(t, srv.Admin(), opts), store.Write{Key: "g", Value: []byte("3")})
	if again <= rev {
		t.Errorf("revision %d after %d", again, rev)
	}
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: rev, Value: []byte("4")})
	trial.Outcome(t, err, store.Conflict)
	if e := trial.Get(t, s, "g"); e.Revision != again || string(e.Value) != "3" {
		t.Errorf("%+v", e)
	}
}

// The API server, or a proxy before it, asks for a repetition by Retry-After,
// and client-go obeys ten times.
func retries(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	g := newGateway(t, srv)
	s := open(t, g.config(), opts)
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("0")})
	page := func(code int, applied bool) func(http.ResponseWriter, func() answer) {
		return func(w http.ResponseWriter, forward func() answer) {
			if applied {
				forward()
			}
			w.Header().Set("Retry-After", "0")
			http.Error(w, "<html>not now</html>", code)
		}
	}
	for i, c := range []struct {
		code    int
		applied bool
		want    store.Outcome
	}{
		{http.StatusTooManyRequests, false, store.Transient},
		{http.StatusServiceUnavailable, true, store.Unknown},
		{http.StatusInternalServerError, true, store.Unknown},
		{http.StatusGatewayTimeout, true, store.Unknown},
		{http.StatusBadGateway, false, store.Unknown},
		// Pages that do not come from the API server leave the outcome of the
		// write unknown.
		{http.StatusNotFound, true, store.Unknown},
		{http.StatusForbidden, true, store.Unknown},
		{http.StatusConflict, true, store.Unknown},
	} {
		before := g.count(http.MethodPut)
		g.instead(page(c.code, c.applied))
		value := fmt.Sprintf("write %d", i)
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: rev, Value: []byte(value)})
		trial.Outcome(t, err, c.want)
		if n := g.count(http.MethodPut) - before; n != 1 {
			t.Errorf("%d: %d requests", c.code, n)
		}
		e := trial.Get(t, s, "g")
		if c.applied != (string(e.Value) == value) {
			t.Errorf("%d: %+v", c.code, e)
		}
		rev = e.Revision
	}
	if _, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: rev + 1000, Value: []byte("x")}); store.Classify(err) != store.Conflict {
		t.Error(err)
	}
}

// A proxy in between may repeat a write whose answer it lost, and return the
// answer to the repetition, which is a conflict with the first.
func repetition(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	g := newGateway(t, srv)
	s := open(t, g.config(), opts)
	twice := func(w http.ResponseWriter, forward func() answer) {
		forward()
		forward().write(w)
	}
	var rev uint64
	for i := range 3 { // made, and changed
		g.instead(twice)
		next := trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i)})
		if e := trial.Get(t, s, "g"); e.Revision != next || next <= rev {
			t.Errorf("%d, and then %+v", next, e)
		}
		rev = next
	}
	other := open(t, srv.Admin(), opts)
	later := trial.Must(t, other, store.Write{Key: "g", Expected: rev, Value: []byte("another's")})
	g.instead(twice)
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: rev, Value: []byte("mine")})
	trial.Outcome(t, err, store.Conflict)
	if e := trial.Get(t, s, "g"); e.Revision != later {
		t.Errorf("%+v", e)
	}
	// If a read is not possible, the record may be the write.
	g.instead(twice)
	g.blinded()
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: later, Value: []byte("mine")})
	trial.Outcome(t, err, store.Unknown)
	if e := trial.Get(t, other, "g"); string(e.Value) != "mine" {
		t.Errorf("%+v", e)
	}
}

// The first request of a connection is held before the handshake.
func unreachable(t *testing.T, srv *kubelab.Server) {
	proxy := natslab.NewRelay(t, srv.Addr)
	fresh := open(t, kubelab.Through(srv.Admin(), proxy.Addr()), k8sstore.Options{Namespace: newNamespace(srv)})
	proxy.Hold(natslab.ToServer)
	_, err := fresh.CompareAndSwap(trial.Brief(t), store.Write{Key: "g", Expected: 0, Value: []byte("early")})
	trial.Outcome(t, err, store.Transient, "not sent")
	proxy.Resume()
}

// A permanent error contains the remedy.
func explained(t *testing.T, srv *kubelab.Server) {
	_, err := open(t, srv.Admin(), k8sstore.Options{Namespace: "nowhere"}).CompareAndSwap(trial.Within(t), store.Write{Key: "g"})
	trial.Outcome(t, err, store.Permanent, "kubectl create namespace nowhere")
	namespace := newNamespace(srv)
	anonymous := open(t, srv.Anonymous(), k8sstore.Options{Namespace: namespace})
	_, err = anonymous.CompareAndSwap(trial.Within(t), store.Write{Key: "_ctl.g"})
	trial.Outcome(t, err, store.Permanent, "a Role in the namespace", "x--5fctl.g")
	_, err = anonymous.Get(trial.Within(t), "g")
	trial.Outcome(t, err, store.Permanent, "a Role in the namespace")
	wrong := srv.Anonymous()
	wrong.BearerToken = "wrong"
	_, err = open(t, wrong, k8sstore.Options{Namespace: namespace}).Get(trial.Within(t), "g")
	trial.Outcome(t, err, store.Permanent, "Unauthorized")
}

func TestAWatchOutlivesItsServers(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	s := open(t, srv.Admin(), opts)
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h := trial.Listen(t, s, "g")
	h.Value("1")
	trial.ComesTo(t, s, store.Connected)
	srv.Freeze()
	trial.ComesTo(t, s, store.Disconnected)
	srv.Thaw()
	trial.ComesTo(t, s, store.Connected)
	rev = trial.Settle(t, s, "g", rev, "2")
	h.Value("2")

	for name, f := range map[string]func(){
		"the API server": func() { srv.Kill(); srv.Run() },
		"etcd":           func() { srv.Etcd.Kill(); srv.Etcd.Run() },
	} {
		at := time.Now()
		f()
		before := trial.Get(t, s, "g")
		if before.Revision != rev {
			t.Errorf("%s was killed: %+v, want revision %d", name, before, rev)
		}
		rev = trial.Settle(t, s, "g", rev, name)
		h.Value(name)
		t.Logf("%s killed: written and heard again after %v", name, time.Since(at).Round(time.Millisecond))
	}
}
