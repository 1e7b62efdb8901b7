package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/seed-ff2cb582/leader/store/memstore"
)

const token = "6f1c2f6e-0c0e-4e0e-9d61-6ed0f6a1a6e3"

// lead returns the context of a term that lasts until over is called.
func lead(t *testing.T) (ctx context.Context, over func()) {
	t.Helper()
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	promoted := make(chan context.Context, 1)
	e.OnPromote(func(ctx context.Context, _ string) { promoted <- ctx })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	over = func() { _ = e.Stop() }
	t.Cleanup(over)
	return <-promoted, over
}

func post(t *testing.T, ctx context.Context, client *http.Client, url string) (*http.Response, error) { //nolint:revive // t comes first in tests
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

func TestTransportStatesTheTermOfTheContext(t *testing.T) {
	ctx, _ := lead(t)
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer srv.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Add(httpfence.HeaderToken, "an earlier one")
	client := &http.Client{Transport: &httpfence.Transport{Group: "reports"}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	group, term, err := httpfence.Read(got)
	if want, _ := leader.TermFromContext(ctx); err != nil || group != "reports" || term != want {
		t.Errorf("%q, %v, %v; want %v", group, term, err, want)
	}
	if len(req.Header) != 1 || req.Header.Get(httpfence.HeaderToken) != "an earlier one" {
		t.Error("the caller's request was changed")
	}
}

func TestTransportSendsNothingForATermThatIsOver(t *testing.T) {
	ctx, over := lead(t)
	base := new(never)
	transport := &httpfence.Transport{Group: "reports", Base: base}
	over()
	for ctx, want := range map[context.Context]error{ctx: leader.ErrNotLeader, t.Context(): httpfence.ErrNoTerm} {
		body := &closing{Reader: strings.NewReader("x")}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service", body)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := transport.RoundTrip(req); !errors.Is(err, want) { //nolint:bodyclose // there is none
			t.Errorf("%v, %v", resp, err)
		}
		if !body.closed {
			t.Error("the body was left open")
		}
	}
	if base.asked != 0 {
		t.Errorf("%d requests sent", base.asked)
	}
}

// A never is a transport that is not to be asked.
type never struct{ asked int }

func (n *never) RoundTrip(*http.Request) (*http.Response, error) {
	n.asked++
	return nil, errors.New("asked")
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestTokenStaysWithTheHostThatItWasSentTo(t *testing.T) {
	ctx, _ := lead(t)
	var stranger atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stranger.Add(1)
		if r.Header.Get(httpfence.HeaderToken) != "" {
			t.Error("the stranger learned the token")
		}
	}))
	defer other.Close()
	arrived := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/arrive":
			if _, _, err := httpfence.Read(r.Header); err == nil {
				arrived++
			}
		case "/home":
			http.Redirect(w, r, "/arrive", http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer srv.Close()
	for name, c := range map[string]struct {
		transport http.RoundTripper
		home      int // how many arrive
	}{
		"by itself":            {&httpfence.Transport{Group: "reports"}, 1},
		"over a forgetful one": {&httpfence.Transport{Group: "reports", Base: forgetful{http.DefaultTransport}}, 1},
		// The response does not show where the request was before.
		"below a forgetful one": {forgetful{&httpfence.Transport{Group: "reports"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			client, before := &http.Client{Transport: c.transport}, arrived
			_, err := post(t, ctx, client, srv.URL+"/home") //nolint:bodyclose // post does
			if n := arrived - before; n != c.home || errors.Is(err, httpfence.ErrRedirected) != (n == 0) {
				t.Errorf("redirected within the host: %v, %d arrived", err, n)
			}
			if _, err := post(t, ctx, client, srv.URL+"/away"); !errors.Is(err, httpfence.ErrRedirected) || stranger.Load() != 0 { //nolint:bodyclose // post does
				t.Errorf("redirected away: %v", err)
			}
		})
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

// ask sends one request past the middleware's client side.
func ask(h http.Handler, set func(http.Header)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	set(r.Header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func stated(n uint64, tok string) func(http.Header) {
	return func(h http.Header) { httpfence.Stamp(h, "reports", leader.Term{Number: n, Token: tok}) }
}

func with(change func(http.Header)) func(http.Header) {
	return func(h http.Header) {
		stated(7, token)(h)
		change(h)
	}
}

func TestRequestsAreAnsweredByWhatTheyState(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(http.Header)
		want int
	}{
		"the term that was here":     {stated(7, token), http.StatusOK},
		"a newer one":                {stated(8, "x"), http.StatusOK},
		"an older one":               {stated(6, "x"), http.StatusPreconditionFailed},
		"another of the same number": {stated(7, "x"), http.StatusPreconditionFailed},
		"nothing":                    {func(http.Header) {}, http.StatusPreconditionRequired},
		"no group":                   {with(func(h http.Header) { h.Del(httpfence.HeaderGroup) }), http.StatusBadRequest},
		"no number":                  {with(func(h http.Header) { h.Del(httpfence.HeaderTerm) }), http.StatusBadRequest},
		"no token":                   {with(func(h http.Header) { h.Del(httpfence.HeaderToken) }), http.StatusBadRequest},
		"an empty token":             {with(func(h http.Header) { h.Set(httpfence.HeaderToken, "") }), http.StatusBadRequest},
		"a token that is too long": {with(func(h http.Header) {
			h.Set(httpfence.HeaderToken, strings.Repeat("x", fence.MaxToken+1))
		}), http.StatusBadRequest},
		"a token with a blank":   {with(func(h http.Header) { h.Set(httpfence.HeaderToken, "a b") }), http.StatusBadRequest},
		"two tokens":             {with(func(h http.Header) { h.Add(httpfence.HeaderToken, "x") }), http.StatusBadRequest},
		"two numbers":            {with(func(h http.Header) { h.Add(httpfence.HeaderTerm, "8") }), http.StatusBadRequest},
		"another group":          {with(func(h http.Header) { h.Set(httpfence.HeaderGroup, "invoices") }), http.StatusBadRequest},
		"no group's name":        {with(func(h http.Header) { h.Set(httpfence.HeaderGroup, "a b") }), http.StatusBadRequest},
		"a group's name of 1 KB": {with(func(h http.Header) { h.Set(httpfence.HeaderGroup, strings.Repeat("a", 1000)) }), http.StatusBadRequest},
		"number 0":               {with(func(h http.Header) { h.Set(httpfence.HeaderTerm, "0") }), http.StatusBadRequest},
		"a sign":                 {with(func(h http.Header) { h.Set(httpfence.HeaderTerm, "+8") }), http.StatusBadRequest},
		"a leading zero":         {with(func(h http.Header) { h.Set(httpfence.HeaderTerm, "08") }), http.StatusBadRequest},
		"2^64-1":                 {stated(1<<64-1, "x"), http.StatusBadRequest},
		"2^64":                   {with(func(h http.Header) { h.Set(httpfence.HeaderTerm, "18446744073709551616") }), http.StatusBadRequest},
		"a list":                 {with(func(h http.Header) { h.Set(httpfence.HeaderTerm, "7, 8") }), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			gate := fence.NewGate(fence.MarkOf(leader.Term{Number: 7, Token: token}))
			called := false
			w := ask(httpfence.Require("reports", gate.Enter)(http.HandlerFunc(
				func(http.ResponseWriter, *http.Request) { called = true })), c.set)
			if w.Code != c.want || called != (c.want == http.StatusOK) {
				t.Errorf("%d, handler called: %v; want %d", w.Code, called, c.want)
			}
			if strings.Contains(w.Body.String(), token) {
				t.Errorf("shows the token: %s", w.Body)
			}
			if w.Code != http.StatusOK {
				checkProblem(t, w)
			}
		})
	}
}

func checkProblem(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var p struct {
		Title  string
		Status int
		Term   uint64
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Title == "" {
		t.Errorf("%v: %s", err, w.Body)
	}
	if w.Code == http.StatusPreconditionFailed && p.Term != 7 {
		t.Errorf("the answer does not contain the later term: %s", w.Body)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("content type %q", ct)
	}
}

func TestGateThatCannotDecideAnswers503AndNotWhy(t *testing.T) {
	gate := &fence.Gate{Persist: func(context.Context, fence.Mark) error { return errors.New("secret path") }}
	w := ask(httpfence.Require("reports", gate.Enter)(http.NotFoundHandler()), stated(1, "x"))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestATermThatTheGateRefusesIsAnswered403AndNotWhy(t *testing.T) {
	gate := &fence.Gate{Vet: func(context.Context, fence.Mark) error { return errors.New("secret rule") }}
	w := ask(httpfence.Require("reports", gate.Enter)(http.NotFoundHandler()), stated(1, "x"))
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	checkProblem(t, w)
}

// A request of an older term is at work when one of a newer term arrives.
func TestRequestsOfDifferentTermsNeverOverlap(t *testing.T) {
	var gate fence.Gate
	var inside atomic.Int32
	begun := make(chan struct{})
	h := httpfence.Require("reports", gate.Enter)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if inside.Add(1) != 1 {
			t.Error("two at work")
		}
		defer inside.Add(-1)
		if term, _ := fence.FromContext(r.Context()); term.Number == 1 {
			close(begun)
			<-r.Context().Done()
			if !errors.Is(context.Cause(r.Context()), fence.ErrStale) {
				t.Error(context.Cause(r.Context()))
			}
		}
	}))
	first := make(chan struct{})
	go func() {
		defer close(first)
		ask(h, stated(1, "a"))
	}()
	<-begun
	if w := ask(h, stated(2, "b")); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
	<-first
	if w := ask(h, stated(1, "a")); w.Code != http.StatusPreconditionFailed {
		t.Error(w.Code)
	}
}

func TestHandlerRefusesWhatItsTransactionRefused(t *testing.T) {
	stale := &fence.StaleError{Refused: fence.Mark{Term: 6}, Last: fence.Mark{Term: 7}}
	h := httpfence.Require("reports", httpfence.Unguarded)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		httpfence.Refuse(w, stale)
	}))
	if w := ask(h, stated(6, "x")); w.Code != http.StatusPreconditionFailed {
		t.Error(w.Code)
	} else {
		checkProblem(t, w)
	}
}

// A handler that forwards the request, or logs its headers, must not give the
// token away.
func TestTheHandlerGetsTheTermAndNotTheHeaderWithItsToken(t *testing.T) {
	want := leader.Term{Number: 7, Token: token}
	for name, enter := range map[string]httpfence.Enter{"a gate": new(fence.Gate).Enter, "unguarded": httpfence.Unguarded} {
		var got *http.Request
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		httpfence.Stamp(r.Header, "reports", want)
		r.Header.Set("Trace", "x")
		httpfence.Require("reports", enter)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r })).
			ServeHTTP(httptest.NewRecorder(), r)
		if term, ok := fence.FromContext(got.Context()); !ok || term != want {
			t.Errorf("%s: the context carries %v", name, term)
		}
		if got.Header.Get(httpfence.HeaderToken) != "" || got.Header.Get(httpfence.HeaderTerm) != "7" || got.Header.Get("Trace") != "x" {
			t.Errorf("%s: the handler sees %v", name, got.Header)
		}
		if r.Header.Get(httpfence.HeaderToken) == "" {
			t.Errorf("%s: the caller's request was changed", name)
		}
	}
}
