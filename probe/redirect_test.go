package probe_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A site is a web server beside a candidate.
type site struct {
	*httptest.Server
	h http.Handler
}

// open makes the web server first, since the candidate's record names its
// address.
func open(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.h.ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	return s
}

func (s *site) campaign(t *testing.T, st store.Store, id string, opts probe.RedirectOptions) leader.Election {
	t.Helper()
	cfg := config("g", id)
	cfg.TTL, cfg.Address = time.Minute, s.URL+"/base"
	e := candidate(t, st, cfg)
	s.h = probe.Redirect(e, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s served %s %s %s", id, r.Method, r.RequestURI, b)
	}), opts)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for info := range e.Observe(t.Context()) {
		if info.ID != "" {
			return e
		}
	}
	t.Fatal("nobody leads")
	return nil
}

func post(t *testing.T, target string) (status int, text string) {
	t.Helper()
	r, err := http.Post(target, "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestRedirectSendsMethodBodyAndQueryToTheLeader(t *testing.T) {
	st := memstore.New()
	a, b := open(t), open(t)
	a.campaign(t, st, "a", probe.RedirectOptions{})
	b.campaign(t, st, "b", probe.RedirectOptions{})
	checkRefusal(t, b.URL, http.StatusTemporaryRedirect, probe.RefusalElsewhere)
	checkRefusal(t, a.URL, http.StatusOK, "")
	for target, want := range map[string]string{
		a.URL + "/x%2Fy?q=1;2&z": "a served POST /x%2Fy?q=1;2&z hello",
		b.URL + "/x%2Fy?q=1;2&z": "a served POST /base/x%2Fy?q=1;2&z hello",
		b.URL + "//evil.example": "a served POST /base//evil.example hello",
	} {
		if status, text := post(t, target); status != 200 || text != want {
			t.Errorf("%s: %d %s", target, status, text)
		}
	}
}

// checkRefusal demands that an answer is marked if no handler saw the request,
// and only then.
func checkRefusal(t *testing.T, target string, status int, want string) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if got := r.Header.Get(probe.RefusalHeader); r.StatusCode != status || got != want {
		t.Errorf("%s: %d, refusal %q; want %d, %q", target, r.StatusCode, got, status, want)
	}
}

// Two candidates that each take the other for the leader, as far as each has
// heard.
func TestRedirectSendsNobodyInCircles(t *testing.T) {
	early, late := memstore.New(), memstore.NewWithOptions(memstore.Options{FirstRevision: 100})
	a, b := open(t), open(t)
	// The leaders that the two see have the addresses of one another.
	b.campaign(t, early, "b", probe.RedirectOptions{})
	a.campaign(t, late, "a", probe.RedirectOptions{})
	a.campaign(t, early, "a", probe.RedirectOptions{}) // follows b
	b.campaign(t, late, "b", probe.RedirectOptions{})  // follows a
	for _, s := range []*site{a, b} {
		checkRefusal(t, s.URL+"/?leader-term=100", http.StatusServiceUnavailable, probe.RefusalNotLater)
		if status, text := post(t, s.URL); status != http.StatusServiceUnavailable || !strings.Contains(text, "no leader is known after term 100") {
			t.Errorf("%d %s", status, text)
		}
	}
}

func TestRedirectServesLocallyWhatItMay(t *testing.T) {
	st := memstore.New()
	a, b := open(t), open(t)
	a.campaign(t, st, "a", probe.RedirectOptions{})
	b.campaign(t, st, "b", probe.RedirectOptions{Local: func(r *http.Request) bool { return r.URL.Path == "/local" }})
	if status, text := post(t, b.URL+"/local?leader-term=7&x"); status != 200 || text != "b served POST /local?x hello" {
		t.Errorf("%d %s", status, text)
	}
}

func TestRedirectGoesWhereAnAddressLeads(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:80":           "http://10.0.0.1:80/p?leader-term=",
		"https://leader.eu/x/":  "https://leader.eu/x/p?leader-term=",
		"":                      "",
		"javascript://alert(1)": "",
		"ftp://leader":          "",
		"http://":               "",
		"http://a b":            "",
		":8080":                 "",
		"https://:8443/x":       "",
		"0.0.0.0:80":            "",
		"http://[::]:80":        "",
		"[::ffff:0.0.0.0]:80":   "",
		"[fe80::1]:80":          "http://[fe80::1]:80/p?leader-term=",
	} {
		t.Run(address, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				cfg := config("g", "a")
				cfg.Address = address
				a := candidate(t, st, cfg)
				launch(t, a)
				if want != "" {
					want += strconv.FormatUint(a.Term().Number, 10)
				}
				r := ask(probe.Redirect(start(t, st, "b"), http.NotFoundHandler(), probe.RedirectOptions{}), http.MethodGet, "/p")
				status, refusal := http.StatusTemporaryRedirect, probe.RefusalElsewhere
				if want == "" {
					status, refusal = http.StatusServiceUnavailable, probe.RefusalNoAddress
				}
				if got := r.Header().Get(probe.RefusalHeader); got != refusal {
					t.Errorf("refusal %q, want %q", got, refusal)
				}
				if r.Code != status || r.Header().Get("Location") != want || (r.Header().Get("Retry-After") == "") == (want == "") {
					t.Errorf("%d %v", r.Code, r.Header())
				}
			})
		})
	}
}

func TestRedirectAcceptsALeaderAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		start(t, st, "a")
		h := probe.Redirect(start(t, st, "b"), http.NotFoundHandler(), probe.RedirectOptions{
			Base: func(_ *http.Request, l leader.LeaderInfo) *url.URL {
				return &url.URL{Scheme: "https", Host: l.ID + ".example"}
			},
		})
		if to := ask(h, http.MethodGet, "/p?q").Header().Get("Location"); !strings.HasPrefix(to, "https://a.example/p?q&leader-term=") {
			t.Error(to)
		}
	})
}

func TestRedirectWithoutALeaderAsksToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := probe.Redirect(candidate(t, memstore.New(), config("g", "a")), http.NotFoundHandler(), probe.RedirectOptions{})
		r := ask(h, http.MethodGet, "/")
		if r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") != "1" || r.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v", r.Code, r.Header())
		}
		if got := r.Header().Get(probe.RefusalHeader); got != probe.RefusalNoLeader {
			t.Errorf("refusal %q", got)
		}
	})
}

// http.StripPrefix takes its prefix off the URL, and leaves RequestURI as it
// came.
func TestARequestThatWasSentIsTheSameAsADirectOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := http.StripPrefix("/base", probe.Redirect(start(t, memstore.New(), "a"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.RequestURI, " ", r.URL)
		}), probe.RedirectOptions{}))
		for direct, sent := range map[string]string{
			"/base/x%2Fy?q=1;2&z": "/base/x%2Fy?q=1;2&z&leader-term=1",
			"/base/x":             "/base/x?leader-term=1",
			"/base/x?a&b":         "/base/x?a&leader-term=1&b&leader-term=2",
			"http://h/base/x?q":   "http://h/base/x?q&leader-term=1",
		} {
			want := ask(h, http.MethodGet, direct).Body.String()
			if got := ask(h, http.MethodGet, sent).Body.String(); got != want || !strings.HasPrefix(got, direct+" ") {
				t.Errorf("sent by a redirect it is %q, and direct %q", got, want)
			}
		}
	})
}
