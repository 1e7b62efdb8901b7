package probe_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A reply is what the client of a test has got.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       string
}

// answer asks a server once, and follows nothing.
func answer(t *testing.T, target string) reply {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Post(target, "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(body)}
}

func TestARefusalNamesItsGroupAndWhoRefuses(t *testing.T) {
	st := memstore.New()
	a, b := open(t), open(t)
	a.campaign(t, st, "a", probe.RedirectOptions{})
	e := b.campaign(t, st, "b", probe.RedirectOptions{})
	check := func(status int) {
		t.Helper()
		r := answer(t, b.URL)
		if group, by := r.Header.Get(probe.GroupHeader), r.Header.Get(probe.RefusedByHeader); r.StatusCode != status || group != "g" || by != b.URL+"/base" {
			t.Errorf("%d, of group %q, by %q", r.StatusCode, group, by)
		}
	}
	check(http.StatusTemporaryRedirect)
	if err := e.Pause(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	for info := range e.Observe(t.Context()) {
		if info.ID == "" {
			break
		}
	}
	check(http.StatusServiceUnavailable)
}

// A header cannot contain every address.
func TestARefusalRepeatsNoAddressWithBlanks(t *testing.T) {
	cfg := config("g", "a")
	cfg.Address = "http://a\nX: y"
	w := ask(probe.Redirect(candidate(t, memstore.New(), cfg), http.NotFoundHandler(), probe.RedirectOptions{}), http.MethodGet, "/")
	if by := w.Header().Get(probe.RefusedByHeader); by != "" || w.Header().Get(probe.GroupHeader) != "g" {
		t.Errorf("refused by %q: %v", by, w.Header())
	}
}

// The handler has run by then. It may pass on what a follower of another group
// answered, and that group may have the same name.
func TestAHandlersAnswerCarriesNoRefusal(t *testing.T) {
	behind := open(t)
	e := behind.campaign(t, memstore.New(), "x", probe.RedirectOptions{})
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(probe.RefusalHeader, probe.RefusalElsewhere)
		w.Header().Set(probe.GroupHeader, "g")
		w.Header().Set("Location", "http://stranger.example/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(elsewhere.Close)
	relay := func(to string) http.HandlerFunc {
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		return httputil.NewSingleHostReverseProxy(u).ServeHTTP
	}
	refuse := func(w http.ResponseWriter) { w.Header().Set(probe.RefusalHeader, probe.RefusalNoLeader) }
	st := memstore.New()
	a := open(t)
	leads := a.campaign(t, st, "a", probe.RedirectOptions{})
	for name, c := range map[string]struct {
		h      http.HandlerFunc
		status int
		body   string
	}{
		"a redirect of its own":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusTemporaryRedirect) }, http.StatusTemporaryRedirect, ""},
		"a 503 of another group": {relay(behind.URL), http.StatusServiceUnavailable, "nobody leads\n"},
		"a 307 of another group": {relay(elsewhere.URL), http.StatusServiceUnavailable, ""},
		"its own": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w)
			http.Error(w, "x", http.StatusServiceUnavailable)
		}, http.StatusServiceUnavailable, "x\n"},
		"in small letters": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["leader-refusal"] = []string{"x"}
			w.WriteHeader(http.StatusServiceUnavailable)
		}, http.StatusServiceUnavailable, ""},
		"behind a hint": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			refuse(w)
			w.WriteHeader(http.StatusServiceUnavailable)
		}, http.StatusServiceUnavailable, ""},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { refuse(w) }, 200, ""},
		"written": {func(w http.ResponseWriter, _ *http.Request) { refuse(w); _, _ = io.WriteString(w, "x") }, 200, "x"},
		"copied": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w)
			_, _ = io.Copy(w, &io.LimitedReader{R: strings.NewReader("xy"), N: 1})
		}, 200, "x"},
		"flushed": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w)
			f, _ := w.(http.Flusher)
			f.Flush()
		}, 200, ""},
		"sent": {func(w http.ResponseWriter, _ *http.Request) { refuse(w); _ = http.NewResponseController(w).Flush() }, 200, ""},
		"a 503 that is flushed": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w)
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = http.NewResponseController(w).Flush()
		}, http.StatusServiceUnavailable, ""},
		"hijacked": {hijack(t, func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
			h, _ := w.(http.Hijacker)
			return h.Hijack()
		}), 202, ""},
		"hijacked by a controller": {hijack(t, func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
			return http.NewResponseController(w).Hijack()
		}), 202, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(probe.Redirect(leads, c.h, probe.RedirectOptions{}))
			defer s.Close()
			r := answer(t, s.URL)
			if refusal := r.Header.Get(probe.RefusalHeader); r.StatusCode != c.status || r.Body != c.body || refusal != "" {
				t.Errorf("%d %q: refusal %q", r.StatusCode, r.Body, refusal)
			}
			if to := r.Header.Get("Location"); to != "" && r.StatusCode != http.StatusTemporaryRedirect {
				t.Errorf("%d leads to %q", r.StatusCode, to)
			}
		})
	}
}

// A middleware that recovers answers with the headers that are there.
func TestAHandlersPanicLeavesNoRefusalBehind(t *testing.T) {
	a := open(t)
	h := probe.Redirect(a.campaign(t, memstore.New(), "a", probe.RedirectOptions{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(probe.RefusalHeader, "x")
		panic("boom")
	}), probe.RedirectOptions{})
	w := httptest.NewRecorder()
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody))
	}()
	if refusal := w.Header().Get(probe.RefusalHeader); refusal != "" {
		t.Errorf("refusal %q", refusal)
	}
}

// hijack takes the connection from the server, as those do that upgrade it.
func hijack(t *testing.T, take func(http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := take(w)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = rw.Flush()
		_ = conn.Close()
	}
}

func TestADeadlineReachesTheConnectionBelow(t *testing.T) {
	a := open(t)
	leads := a.campaign(t, memstore.New(), "a", probe.RedirectOptions{})
	s := httptest.NewServer(probe.Redirect(leads, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
	}), probe.RedirectOptions{}))
	defer s.Close()
	answer(t, s.URL)
}

func TestAHandlerRefusesByRefuse(t *testing.T) {
	a := open(t)
	leads := a.campaign(t, memstore.New(), "a", probe.RedirectOptions{})
	for name, c := range map[string]struct {
		wrap  func(http.Handler) http.Handler
		group string
	}{
		"behind Redirect": {func(h http.Handler) http.Handler { return probe.Redirect(leads, h, probe.RedirectOptions{}) }, "g"},
		"with a middleware between": {func(h http.Handler) http.Handler {
			return probe.Redirect(leads, http.TimeoutHandler(h, time.Minute, "late"), probe.RedirectOptions{})
		}, "g"},
		"without Redirect": {func(h http.Handler) http.Handler { return h }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.wrap(http.HandlerFunc(probe.Refuse)))
			defer s.Close()
			r := answer(t, s.URL)
			want := map[bool]string{true: probe.RefusalNoLeader}[c.group != ""]
			if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get(probe.RefusalHeader) != want || r.Header.Get(probe.GroupHeader) != c.group ||
				r.Header.Get("Retry-After") == "" {
				t.Errorf("%d %v", r.StatusCode, r.Header)
			}
		})
	}
}

// Its answer passes through a handler of another group, which has run.
func TestRefusalOfAnotherGroupIsIgnored(t *testing.T) {
	outer := open(t)
	leads := outer.campaign(t, memstore.New(), "a", probe.RedirectOptions{})
	inner := probe.Redirect(candidate(t, memstore.New(), config("h", "b")), http.NotFoundHandler(), probe.RedirectOptions{})
	s := httptest.NewServer(probe.Redirect(leads, inner, probe.RedirectOptions{}))
	defer s.Close()
	if r := answer(t, s.URL); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get(probe.RefusalHeader) != "" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
}
