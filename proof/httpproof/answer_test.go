package httpproof_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/proof/httpproof"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A client takes answers of the leader alone, and has never seen the store.
func ExampleAsker() {
	key, err := proof.GenerateKey() // or proof.ReadKey
	if err != nil {
		panic(err)
	}
	keys, err := proof.NewKeySet(key.Public()) // or proof.ReadKeySet
	if err != nil {
		panic(err)
	}

	// The service, on a host that leads.
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second}
	e, err := leader.NewElectionWithStore(memstore.New(), cfg)
	if err != nil {
		panic(err)
	}
	signer, err := proof.NewSigner(e, cfg.Group, cfg.InstanceID, key, proof.SignerOptions{})
	if err != nil {
		panic(err)
	}
	service := httptest.NewServer(httpproof.Prove(signer)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "42 reports")
	})))
	defer service.Close()
	led := make(chan struct{})
	e.OnPromote(func(context.Context, string) { close(led) })
	if err := e.Start(context.Background()); err != nil {
		panic(err)
	}
	<-led

	// The client.
	verifier, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &httpproof.Asker{Verifier: verifier}}
	ask := func() {
		resp, err := client.Get(service.URL)
		if err != nil {
			fmt.Println("not the leader:", errors.Is(err, httpproof.ErrUnproved))
			return
		}
		defer func() { _ = resp.Body.Close() }()
		by, _ := httpproof.AnsweredBy(resp)
		answer, _ := io.ReadAll(resp.Body)
		fmt.Print(by.Leader, " says: ", string(answer))
	}
	ask()
	if err := e.Stop(); err != nil {
		panic(err)
	}
	ask()
	// Output:
	// host-1 says: 42 reports
	// not the leader: true
}

// asker returns a client of the key's group.
func asker(t *testing.T, key proof.Key) *http.Client {
	t.Helper()
	keys, err := proof.NewKeySet(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	v, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: &httpproof.Asker{Verifier: v}}
}

// serve starts a server.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// get returns the answer's status and body, and who gave it.
func get(t *testing.T, c *http.Client, url string) (status int, body string, by proof.Statement, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", proof.Statement{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	by, _ = httpproof.AnsweredBy(resp)
	if shown := resp.Header.Get(httpproof.Header); shown != "" {
		t.Errorf("the caller sees the proof %q", shown)
	}
	return resp.StatusCode, string(b), by, err
}

func keyed(t *testing.T) proof.Key {
	t.Helper()
	key, err := proof.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signerOf(t *testing.T, e leader.Election, key proof.Key) *proof.Signer {
	t.Helper()
	s, err := proof.NewSigner(e, "reports", "host-1", key, proof.SignerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// next leads in the term after.
type next struct{ leader.Election }

func (n next) Status() leader.ElectionStatus {
	s := n.Election.Status()
	s.Term++
	return s
}

// However a handler answers, the proof is there before the answer is.
func TestEveryKindOfAnswerIsProved(t *testing.T) {
	e, term := leading(t)
	key := keyed(t)
	for name, h := range map[string]http.HandlerFunc{
		"":            func(http.ResponseWriter, *http.Request) {},
		"404 nothing": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "nothing", http.StatusNotFound) },
		"200 written": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "written") },
		"200 copied":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("copied")) },
		"200 flushed": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "flushed")
		},
		"200 behind a hint": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "behind a hint")
		},
		"200 of another proof": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(httpproof.Header, "x")
			_, _ = io.WriteString(w, "of another proof")
		},
		"503 busy": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) },
	} {
		url := serve(t, httpproof.Prove(signerOf(t, e, key))(h))
		status, body, by, err := get(t, asker(t, key), url)
		if said := strings.TrimSpace(fmt.Sprint(status, " ", body)); err != nil || by.Leader != "host-1" || name != "" && said != name {
			t.Errorf("%q: %q by %v, %v", name, said, by, err)
		}
	}
	// In the context of a term, as within Election.Do, the proof is that
	// term's.
	within := func(e proof.Election, ctx context.Context) string {
		signer, err := proof.NewSigner(e, "reports", "host-1", key, proof.SignerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		h := httpproof.Prove(signer)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(ctx)) }))
	}
	if _, _, _, err := get(t, asker(t, key), within(e, term)); err != nil {
		t.Error(err)
	}
	if _, _, _, err := get(t, asker(t, key), within(next{e}, context.WithoutCancel(term))); !errors.Is(err, proof.ErrNoProof) {
		t.Errorf("work of a term before: %v", err)
	}
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, body, _, err := get(t, asker(t, key), within(e, term)); !errors.Is(err, httpproof.ErrUnproved) || !errors.Is(err, proof.ErrNoProof) || body != "" {
		t.Errorf("after the term: %q, %v", body, err)
	}
}

// The impostors.
func TestAnAskerRefusesWhatTheLeaderDidNotAnswer(t *testing.T) {
	e, term := leading(t)
	key := keyed(t)
	signer, stranger := signerOf(t, e, key), signerOf(t, e, keyed(t))
	request, err := signer.Sign(term, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signer.Sign(term, "answer to "+proof.NewChallenge()); !errors.Is(err, proof.ErrInvalid) {
		t.Errorf("an answer is signed for a caller's own audience: %v", err)
	}
	earlier, err := signer.Answer(t.Context(), proof.NewChallenge())
	if err != nil {
		t.Fatal(err)
	}
	show := func(status int, texts ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()[httpproof.Header] = texts
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "42")
		}
	}
	for name, c := range map[string]struct {
		h    http.Handler
		want error
	}{
		"no proof":                    {show(200), proof.ErrNoProof},
		"no proof, an error":          {show(404), proof.ErrNoProof},
		"no proof, a usual redirect":  {show(302), proof.ErrNoProof},
		"the proof of a request":      {show(200, request), proof.ErrInvalid},
		"the answer to somebody else": {show(200, earlier), proof.ErrInvalid},
		"a forged one, busy":          {show(503, earlier), proof.ErrInvalid},
		"two":                         {show(200, earlier, earlier), proof.ErrInvalid},
		"another key":                 {httpproof.Prove(stranger)(show(200)), proof.ErrInvalid},
	} {
		_, body, _, err := get(t, asker(t, key), serve(t, c.h))
		if !errors.Is(err, httpproof.ErrUnproved) || !errors.Is(err, c.want) || body != "" {
			t.Errorf("%s: %q, %v", name, body, err)
		}
	}
	// An answer that follows a newer term of another comes from a former
	// leader.
	client := asker(t, key)
	successor := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		text, err := key.Sign(proof.Statement{
			Group: "reports", Leader: "host-2", Term: e.Status().Term + 1, Digest: fence.Digest("token"),
			Audience: "answer to " + r.Header.Get(httpproof.Challenge), Issued: now, Until: now.Add(time.Minute),
		})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set(httpproof.Header, text)
	})
	if _, _, by, err := get(t, client, serve(t, successor)); err != nil || by.Leader != "host-2" {
		t.Errorf("%v, %v", by, err)
	}
	if _, _, _, err := get(t, client, serve(t, httpproof.Prove(signer)(show(200)))); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a former leader: %v", err)
	}
}

// A follower's answer leads to the leader, which has to prove itself.
func TestAnAskerFollowsWhoDoesNotLead(t *testing.T) {
	e, _ := leading(t)
	key := keyed(t)
	to := serve(t, httpproof.Prove(signerOf(t, e, key))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "led") })))
	impostor := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "led") }))
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		redirect := func(to string) string { return serve(t, http.RedirectHandler(to, status)) }
		if _, body, by, err := get(t, asker(t, key), redirect(to)); err != nil || body != "led" || by.Leader != "host-1" {
			t.Errorf("%d: %q by %v, %v", status, body, by, err)
		}
		if _, _, _, err := get(t, asker(t, key), redirect(impostor)); !errors.Is(err, httpproof.ErrUnproved) {
			t.Errorf("%d to an impostor: %v", status, err)
		}
	}
	for _, status := range []int{http.StatusMisdirectedRequest, http.StatusServiceUnavailable} {
		refuse := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		if got, _, by, err := get(t, asker(t, key), refuse); err != nil || got != status || by.Leader != "" {
			t.Errorf("%d by %v, %v", got, by, err)
		}
	}
}
