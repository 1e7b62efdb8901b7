package httpproof_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/httpfence"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/proof/httpproof"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A leader sends its reports to a service, which has never seen the store and
// turns away who does not lead.
func Example() {
	key, err := proof.GenerateKey() // or proof.ReadKey
	if err != nil {
		panic(err)
	}
	keys, err := proof.NewKeySet(key.Public()) // or proof.ReadKeySet
	if err != nil {
		panic(err)
	}

	// The service.
	verifier, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{Audience: "archive"})
	if err != nil {
		panic(err)
	}
	reports := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, _ := proof.FromContext(r.Context())
		fmt.Fprintln(w, "taken from", s.Leader)
	})
	service := httptest.NewServer(httpproof.Require(verifier)(reports))
	defer service.Close()

	// The leader.
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second}
	e, err := leader.NewElectionWithStore(memstore.New(), cfg)
	if err != nil {
		panic(err)
	}
	signer, err := proof.NewSigner(e, cfg.Group, cfg.InstanceID, key, proof.SignerOptions{})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &httpproof.Transport{Signer: signer, Audience: "archive"}}
	done := make(chan struct{})
	e.OnPromote(func(ctx context.Context, _ string) {
		defer close(done)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, http.NoBody)
		if err != nil {
			panic(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			panic(err)
		}
		defer func() { _ = resp.Body.Close() }()
		answer, _ := io.ReadAll(resp.Body)
		fmt.Print(resp.Status, ": ", string(answer))
	})
	if err := e.Start(context.Background()); err != nil {
		panic(err)
	}
	<-done
	if err := e.Stop(); err != nil {
		panic(err)
	}
	// Output:
	// 200 OK: taken from host-1
}

// A service with a group's key, and what its handler saw.
type service struct {
	*httptest.Server

	key      proof.Key
	verifier *proof.Verifier
	seen     []proof.Statement
	headers  http.Header
}

func newService(t *testing.T, opts proof.VerifierOptions) *service {
	t.Helper()
	s := new(service)
	var err error
	if s.key, err = proof.GenerateKey(); err != nil {
		t.Fatal(err)
	}
	keys, err := proof.NewKeySet(s.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if s.verifier, err = proof.NewVerifier("reports", keys, opts); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(httpproof.Require(s.verifier)(s))
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st, _ := proof.FromContext(r.Context())
	s.seen, s.headers = append(s.seen, st), r.Header
	if to := r.URL.Query().Get("to"); to != "" {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}
}

func (s *service) sign(t *testing.T, term uint64, from, until time.Duration) string {
	t.Helper()
	now := time.Now()
	text, err := s.key.Sign(proof.Statement{
		Group: "reports", Leader: "host-1", Term: term, Digest: fence.Digest("token"), Issued: now.Add(from), Until: now.Add(until),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ask sends a request with proofs, and returns the status and the body.
func (s *service) ask(t *testing.T, proofs ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header[httpproof.Header] = proofs
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK && kind != "application/problem+json" {
		t.Errorf("status %d of type %q", resp.StatusCode, kind)
	}
	return resp.StatusCode, string(b)
}

func TestRequestsAreAnsweredByWhatTheyShow(t *testing.T) {
	full := false
	s := newService(t, proof.VerifierOptions{Gate: &fence.Gate{Persist: func(context.Context, fence.Mark) error {
		if full {
			return errors.New("the disk is full")
		}
		return nil
	}}})
	stranger := newService(t, proof.VerifierOptions{})
	good := s.sign(t, 7, 0, time.Minute)
	for _, c := range []struct {
		name   string
		proofs []string
		status int
		title  string
	}{
		{"none", nil, 428, "A leader's proof is required"},
		{"an empty one", []string{""}, 428, "A leader's proof is required"},
		{"a word", []string{"let me in"}, 403, "Invalid proof"},
		{"two", []string{good, good}, 403, "Invalid proof"},
		{"another key's", []string{stranger.sign(t, 9, 0, time.Minute)}, 403, "Invalid proof"},
		{"an old one", []string{s.sign(t, 9, -time.Hour, -time.Minute)}, 403, "Expired proof"},
		{"one from the future", []string{s.sign(t, 9, time.Minute, time.Hour)}, 403, "Proof from the future"},
		{"a good one", []string{good}, 200, ""},
		{"that of the next term", []string{s.sign(t, 8, 0, time.Minute)}, 200, ""},
		{"that of the term before", []string{good}, 412, "Stale term"},
	} {
		before := len(s.seen)
		status, body := s.ask(t, c.proofs...)
		if status != c.status || !strings.Contains(body, c.title) || (len(s.seen) > before) != (status == 200) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if strings.Contains(body, good[len(good)-20:]) {
			t.Errorf("%s: the answer shows the proof: %s", c.name, body)
		}
	}
	if shown := s.headers.Get(httpproof.Header); shown != "" || s.seen[0].Term != 7 || s.seen[1].Term != 8 {
		t.Errorf("the handler saw %v and the proof %q", s.seen, shown)
	}
	full = true
	if status, body := s.ask(t, s.sign(t, 9, 0, time.Minute)); status != 503 || strings.Contains(body, "disk") {
		t.Errorf("a gate that cannot decide: %d %s", status, body)
	}
}

// leading is an election in a term whose context the test has.
func leading(t *testing.T) (leader.Election, context.Context) {
	t.Helper()
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: time.Minute, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	promoted := make(chan context.Context, 1)
	e.OnPromote(func(ctx context.Context, _ string) { promoted <- ctx })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e, <-promoted
}

func TestTransportShowsAProofToItsHostAlone(t *testing.T) {
	e, ctx := leading(t)
	s, other := newService(t, proof.VerifierOptions{Audience: "archive"}), newService(t, proof.VerifierOptions{})
	signer, err := proof.NewSigner(e, "reports", "host-1", s.key, proof.SignerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &httpproof.Transport{Signer: signer, Audience: "archive"}}
	send := func(ctx context.Context, path string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(httpproof.Header, "of the caller's own")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		if shown := req.Header.Get(httpproof.Header); shown != "of the caller's own" {
			t.Errorf("the request was changed: %q", shown)
		}
		return nil
	}
	if err := errors.Join(send(ctx, "/"), send(ctx, "/?to=/again")); err != nil {
		t.Error(err)
	}
	if len(s.seen) != 3 || s.seen[0].Leader != "host-1" || s.seen[0].Audience != "archive" {
		t.Errorf("%v", s.seen)
	}
	if err := send(ctx, "/?to="+other.URL); !errors.Is(err, httpproof.ErrRedirected) || len(other.seen) != 0 {
		t.Errorf("to another host: %v", err)
	}
	if err := send(t.Context(), "/"); !errors.Is(err, proof.ErrNoTerm) {
		t.Errorf("outside of a term: %v", err)
	}
	before := len(s.seen)
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := send(context.WithoutCancel(ctx), "/"); !errors.Is(err, leader.ErrNotLeader) || len(s.seen) != before {
		t.Errorf("after the term: %v", err)
	}
}

// A forgetful transport sends requests, and does not set Response.Request,
// which http.RoundTripper does not require.
type forgetful struct{ base http.RoundTripper }

func (f forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.base.RoundTrip(r)
	if err == nil {
		resp.Request = nil
	}
	return resp, err
}

func TestProofIsSentToItsHostAlone(t *testing.T) {
	e, ctx := leading(t)
	s := newService(t, proof.VerifierOptions{})
	var shown atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown.Add(int32(len(r.Header.Values(httpproof.Header))))
	}))
	t.Cleanup(other.Close)
	signer, err := proof.NewSigner(e, "reports", "host-1", s.key, proof.SignerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	send := func(client *http.Client, path string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	below := &http.Client{Transport: &httpproof.Transport{Signer: signer, Base: forgetful{http.DefaultTransport}}}
	above := &http.Client{Transport: forgetful{&httpproof.Transport{Signer: signer}}}
	for name, client := range map[string]*http.Client{"below": below, "above": above} {
		if err := send(client, "/?to="+other.URL); !errors.Is(err, httpproof.ErrRedirected) {
			t.Errorf("%s: to another host: %v", name, err)
		}
	}
	if n := shown.Load(); n != 0 {
		t.Errorf("another host was shown %d proofs", n)
	}
	if err := send(below, "/?to=/again"); err != nil {
		t.Errorf("to the same host: %v", err)
	}
}

// A resource to which leaders state their terms, and which others can reach,
// too.
func TestAGateThatVetsTakesANewTermFromAProofAlone(t *testing.T) {
	s := newService(t, proof.VerifierOptions{})
	var disk fence.Mark
	gate := &fence.Gate{Vet: s.verifier.Vet, Persist: func(_ context.Context, m fence.Mark) error { disk = m; return nil }}
	stated := httpfence.Require("reports", gate.Enter)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	proved := httpproof.Require(s.verifier)(stated)
	ask := func(h http.Handler, n uint64, token, text string) int {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		httpfence.Stamp(r.Header, "reports", leader.Term{Number: n, Token: token})
		if text != "" {
			r.Header.Set(httpproof.Header, text)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	of := func(n uint64) string { return s.sign(t, n, 0, time.Minute) }
	for i, c := range []struct {
		h     http.Handler
		n     uint64
		token string
		proof string
		want  int
	}{
		{stated, 7, "token", "", http.StatusForbidden},
		{proved, 7, "token", "", http.StatusPreconditionRequired},
		{proved, 7, "token", of(7), http.StatusOK},
		{stated, 7, "token", "", http.StatusOK}, // it is in
		{stated, fence.MaxTerm, "x", "", http.StatusForbidden},
		{stated, fence.MaxTerm, "x", of(7), http.StatusForbidden}, // nobody looked at that proof
		{proved, fence.MaxTerm, "x", of(7), http.StatusForbidden}, // a proof that was overheard
		{proved, 8, "x", of(8), http.StatusForbidden},             // of another token
		{stated, 7, "token", "", http.StatusOK},
		{proved, 8, "token", of(8), http.StatusOK},
		{stated, 7, "token", "", http.StatusPreconditionFailed},
	} {
		if got := ask(c.h, c.n, c.token, c.proof); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
	if disk != (fence.Mark{Term: 8, Digest: fence.Digest("token")}) {
		t.Errorf("persisted was %v", disk)
	}
}
