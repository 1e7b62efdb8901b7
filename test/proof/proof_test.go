// Package proof_test shows on a real NATS server that a resource without a
// connection to it turns a deposed leader away by its proof.
package proof_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/proof/httpproof"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/labs/stalewriter"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	leaks.Crowd()
	goleak.VerifyTestMain(m)
}

func keyed(t *testing.T) (proof.Key, *proof.Verifier) {
	t.Helper()
	key, err := proof.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := proof.NewKeySet(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	v, err := proof.NewVerifier("ledger", keys, proof.VerifierOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return key, v
}

// A candidate signs proofs while it leads.
type candidate struct {
	leader.Election
	*proof.Signer

	terms chan context.Context
}

func join(t *testing.T, url, id string, key proof.Key) *candidate {
	t.Helper()
	cfg := leader.ElectionConfig{
		Bucket: "leaders", BucketAutoCreate: true, Group: "ledger", InstanceID: id, TTL: 2 * time.Second, HeartbeatInterval: 200 * time.Millisecond,
		AcquireGrace: leader.GraceOff, // the bucket is the test's own, and there was none before
	}
	e, err := leader.NewElection(natslab.Connect(t, url), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := proof.NewSigner(e, cfg.Group, id, key, proof.SignerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{e, s, make(chan context.Context, 8)}
	e.OnPromote(func(ctx context.Context, _ string) { c.terms <- ctx })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.StopWithContext(context.WithoutCancel(t.Context()), leader.StopOptions{Timeout: natslab.Patience}); err != nil {
			t.Errorf("stopping %s: %v", id, err)
		}
	})
	return c
}

// leads waits for the candidate's next term, and returns its context, which the
// work goes on with after its end, and a proof.
func (c *candidate) leads(t *testing.T) (careless context.Context, text string) {
	t.Helper()
	select {
	case ctx := <-c.terms:
		text, err := c.Sign(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		return context.WithoutCancel(ctx), text
	case <-time.After(natslab.Patience):
		t.Fatal("never promoted")
		return nil, ""
	}
}

// A leader is cut off, or frozen as it sends, and learns nothing: its last
// proof has ended before another leads. A leader that hands over leaves proofs
// whose time has not come, which the next leader's proofs end.
func TestProofsOfDeposedLeadersAreRefused(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	key, v := keyed(t)
	a := join(t, proxy.URL(), "a", key)
	ctx, first := a.leads(t)
	if _, err := v.Accept(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	b := join(t, srv.URL(), "b", key)

	proxy.Hold(natslab.ToServer, natslab.ToClient)
	last, err := first, error(nil)
	for err == nil {
		var text string
		if text, err = a.Sign(ctx, ""); err == nil {
			last = text
		}
	}
	if !errors.Is(err, leader.ErrNotLeader) {
		t.Errorf("a signs no more, since %v", err)
	}
	if leads := len(b.terms); leads > 0 {
		t.Logf("b leads already: the machine is too busy to see the order")
	}
	if _, err := v.Verify(last); !errors.Is(err, proof.ErrExpired) {
		t.Errorf("the last proof of the leader that was cut off: %v", err)
	}

	_, second := b.leads(t)
	if s, err := v.Accept(t.Context(), second); err != nil || s.Leader != "b" {
		t.Fatalf("the successor: %v, %v", s, err)
	}
	if _, err := v.Accept(t.Context(), last); !errors.Is(err, proof.ErrExpired) {
		t.Errorf("the same, after the successor: %v", err)
	}

	c := join(t, srv.URL(), "c", key)
	if err := b.Transfer(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	_, third := c.leads(t)
	if _, err := v.Accept(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	// By itself it may still be good, and is refused all the same.
	if _, err := v.Accept(t.Context(), second); !errors.Is(err, fence.ErrStale) && !errors.Is(err, proof.ErrExpired) {
		t.Errorf("the proof of the leader that handed over: %v", err)
	}
}

// A service notes the term of each request that it lets through.
type service struct {
	mu   sync.Mutex
	took []uint64
}

func (s *service) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	st, _ := proof.FromContext(r.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, st.Term)
}

// The worst case: the deposed leader's proof is good for as long as it writes,
// as if the clocks were wrong without bound.
func TestOrderOfTermsHoldsWithoutClocks(t *testing.T) {
	t.Parallel()
	key, v := keyed(t)
	s := new(service)
	srv := httptest.NewServer(httpproof.Require(v)(s))
	defer srv.Close()
	stalewriter.Try(t, natslab.Start(t), stalewriter.Resource{
		Open: func(_ context.Context, term leader.Term) (func(context.Context) error, error) {
			text, err := key.Sign(proof.Statement{
				Group: "ledger", Leader: "any", Term: term.Number, Digest: fence.Digest(term.Token),
				Issued: time.Now(), Until: time.Now().Add(time.Hour - time.Minute),
			})
			return func(ctx context.Context) error { return post(ctx, srv, text) }, err
		},
		Log: func(*testing.T) []uint64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.took
		},
	})
}

// post sends a request with a proof. An answer of 412 is a refusal.
func post(ctx context.Context, srv *httptest.Server, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set(httpproof.Header, text)
	resp, err := srv.Client().Do(req)
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
		return errors.New("status " + strconv.Itoa(resp.StatusCode))
	}
}
