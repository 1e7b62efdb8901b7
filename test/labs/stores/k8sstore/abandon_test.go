package k8sstore_test

import (
	"net/http"
	"testing"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
)

// A stall never answers the requests that watch one Lease, and passes on all
// others.
type stall struct {
	next http.RoundTripper
	name string
}

func (s stall) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if q.Get("watch") == "true" && q.Get("fieldSelector") == "metadata.name="+s.name {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return s.next.RoundTrip(r)
}

// The watch counts as started when all first watches are open. An election that
// is given up before that must not be waited for: changes that may have been
// missed before are read, and delivered once more, when the watch starts.
func abandoned(t *testing.T, srv *kubelab.Server) {
	config := srv.Admin()
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return stall{rt, "stalled"} })
	s := open(t, config, k8sstore.Options{Namespace: newNamespace(srv)})
	stop, err := s.Watch(trial.Within(t), []string{"stalled", "g"}, func(store.Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	h := trial.Listen(t, s, "g")
	h.Until("nothing", func(e store.Entry) bool { return e.Revision == 0 })
	trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
	stop()
	h.Value("1") // once more, though nothing was written
}
