package gcsstore_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
)

// An emulator forgets everything when it ends. Run makes the bucket again, as
// if somebody had deleted it.
type emulator struct {
	*objectlab.Server
	tb testing.TB
	c  *storage.Service
}

func (e emulator) Run() {
	e.tb.Helper()
	e.Server.Run()
	if _, err := e.c.Buckets.Insert("lab", &storage.Bucket{Name: bucket}).Context(trial.Within(e.tb)).Do(); err != nil {
		e.tb.Fatal(err)
	}
}

func newEmulator(tb testing.TB) emulator {
	tb.Helper()
	srv, c := made(tb)
	return emulator{srv, tb, c}
}

// A candidate that starts knows nothing of the former leader, which does not
// know yet that the bucket is gone. The bucket's age makes the candidate wait,
// even if the bucket's first answer lacked it.
func TestABucketThatIsMadeAgainHasNoLeaderForALease(t *testing.T) {
	t.Parallel()
	srv := newEmulator(t)
	open := func(tb testing.TB, addr string) store.Store {
		left := &atomic.Int64{}
		left.Store(1)
		unanswered := func(rt http.RoundTripper) http.RoundTripper { return noLook{rt, left} }
		return over(tb, service(tb, addr, unanswered), gcsstore.Options{Timeout: time.Second})
	}
	elections.RestartThatForgets(t, srv.Addr, open, func() { srv.Kill(); srv.Run() }, false)
}

// noLook leaves so many looks at the bucket itself without an answer.
type noLook struct {
	http.RoundTripper
	left *atomic.Int64
}

func (n noLook) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/b/"+bucket) && n.left.Add(-1) >= 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return n.RoundTripper.RoundTrip(r)
}
