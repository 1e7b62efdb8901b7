package k8sstore_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Connections of the store's own are given up when nothing comes in:
// client-go's own wait for 45 s.
func forgotten(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	between := natslab.NewRelay(t, srv.Addr)
	config := srv.Admin()
	config.Host = "https://" + between.Addr()
	s := open(t, config, opts)
	h := trial.Listen(t, s, "g")
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
	between.Forget()
	at := time.Now()
	trial.Settle(t, s, "g", rev, "2")
	written := time.Since(at)
	h.Value("2")
	t.Logf("a connection that vanished: written again after %v, heard after %v", written.Round(time.Millisecond), time.Since(at).Round(time.Millisecond))
	if written > 30*time.Second { // less than client-go, by as much as a machine may stall
		t.Error("it took too long")
	}
}
