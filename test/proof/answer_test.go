package proof_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/proof/httpproof"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A server goes on answering when its candidate is cut off and deposed. A
// client takes its answers for as long as it leads, and never after one of its
// successor: not the one who has seen that, and not the one who comes
// afterwards.
func TestClientsTakeAnswersOfTheLeaderAlone(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	key, v := keyed(t)
	_, later := keyed(t)
	keys, err := proof.NewKeySet(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if err := later.SetKeys(keys); err != nil {
		t.Fatal(err)
	}
	serve := func(c *candidate) string {
		s := httptest.NewServer(httpproof.Prove(c.Signer)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		t.Cleanup(s.Close)
		return s.URL
	}
	ask := func(v *proof.Verifier, url string) (proof.Statement, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		base := &http.Transport{DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: &httpproof.Asker{Verifier: v, Base: base}}).Do(req)
		if err != nil {
			return proof.Statement{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		s, _ := httpproof.AnsweredBy(resp)
		return s, nil
	}
	a := join(t, proxy.URL(), "a", key)
	a.leads(t)
	b := join(t, srv.URL(), "b", key)
	atA, atB := serve(a), serve(b)
	if s, err := ask(v, atA); err != nil || s.Leader != "a" {
		t.Fatalf("the leader: %v, %v", s, err)
	}
	if _, err := ask(v, atB); !errors.Is(err, proof.ErrNoProof) {
		t.Errorf("a follower: %v", err)
	}

	proxy.Hold(natslab.ToServer, natslab.ToClient)
	b.leads(t)
	if s, err := ask(later, atA); !errors.Is(err, httpproof.ErrUnproved) {
		t.Errorf("the leader that was cut off, to a client that has not heard of the next: %v, %v", s, err)
	}
	if s, err := ask(v, atB); err != nil || s.Leader != "b" {
		t.Errorf("the successor: %v, %v", s, err)
	}
	if _, err := ask(v, atA); !errors.Is(err, httpproof.ErrUnproved) {
		t.Errorf("the leader that was cut off: %v", err)
	}
}
