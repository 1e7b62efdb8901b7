// Package httpfence_test shows that an HTTP service refuses a stale leader's
// requests.
package httpfence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/httpfence"
	"github.com/seed-ff2cb582/leader/test/labs/stalewriter"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A service notes the term of each request that it lets through.
type service struct {
	mu   sync.Mutex
	took []uint64
}

func (s *service) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	term, ok := fence.FromContext(r.Context())
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, term.Number)
}

func (s *service) log(*testing.T) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took
}

func TestStalledLeadersRequestsAreAllRefused(t *testing.T) {
	var gate fence.Gate
	s := new(service)
	srv := httptest.NewServer(httpfence.Require("ledger", gate.Enter)(s))
	defer srv.Close()
	client := srv.Client()
	stalewriter.Try(t, natslab.Start(t), stalewriter.Resource{
		Open: func(_ context.Context, term leader.Term) (func(context.Context) error, error) {
			// Past the transport, which would not send for a term that is over.
			return func(ctx context.Context) error { return post(ctx, client, srv.URL, term) }, nil
		},
		Log: s.log,
	})
}

// post sends a request of the term. An answer of 412 is a refusal.
func post(ctx context.Context, client *http.Client, url string, term leader.Term) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	httpfence.Stamp(req.Header, "ledger", term)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is read
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusPreconditionFailed:
		return fence.ErrStale
	default:
		return fmt.Errorf("status %s", strconv.Itoa(resp.StatusCode))
	}
}

// The courtesy of the transport: the term's own context, and the request that
// is not sent.
func TestTransportOfAStalledLeaderSendsNothing(t *testing.T) {
	s := new(service)
	srv := httptest.NewServer(httpfence.Require("ledger", httpfence.Unguarded)(s))
	defer srv.Close()
	nats := natslab.Start(t)
	proxy := natslab.NewRelay(t, nats.Addr())
	client := &http.Client{Transport: &httpfence.Transport{Group: "ledger", Base: srv.Client().Transport}}
	send := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	ctx := stalewriter.Promoted(t, proxy.URL(), "stalled")
	if err := send(ctx); err != nil {
		t.Fatal(err)
	}
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	<-ctx.Done()
	for range 1000 {
		if err := send(ctx); err == nil {
			t.Fatal("sent")
		}
	}
	if n := len(s.log(t)); n != 1 {
		t.Errorf("%d requests arrived", n)
	}
}
