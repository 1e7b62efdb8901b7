package leaderhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A gateway leads a group. Its handler has an effect, and passes the request on.
type gateway struct {
	info    leader.LeaderInfo
	charged atomic.Int32
}

// gate starts a gateway in front of a server: behind probe.Redirect, or as a
// program that has its own way to keep from serving.
func gate(t *testing.T, group string, guarded bool, to string) *gateway {
	t.Helper()
	behind, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	g, relay := new(gateway), httputil.NewSingleHostReverseProxy(behind)
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.charged.Add(1)
		r.Header.Del("Authorization") // it is the gateway's own
		relay.ServeHTTP(w, r)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: group, InstanceID: "gateway", Address: server.URL, TTL: time.Minute, HeartbeatInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if guarded {
		h = probe.Redirect(e, h, probe.RedirectOptions{})
	}
	if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	for g.info = range e.Observe(t.Context()) {
		if g.info.ID != "" {
			return g
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// follower returns the address of a server of the group "reports" that does not
// lead, and the one where it sends clients, which counts what reaches it.
func follower(t *testing.T) (address string, stranger *site) {
	t.Helper()
	st := memstore.New()
	stranger = stand(t, st, "a")
	return stand(t, st, "b").url, stranger
}

// The groups may have the same name, in different stores.
func TestARefusalThatTheLeadersHandlerPassesOnIsTheLeadersAnswer(t *testing.T) {
	vacant := stand(t, memstore.New(), "x")
	if err := vacant.Stop(); err != nil {
		t.Fatal(err)
	}
	old, _ := answers(t, status(503, probe.RefusalHeader, probe.RefusalNoLeader)) // of a version that names no group
	misdirected, _ := answers(t, status(421))
	following, stranger := follower(t)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", stranger.url+r.URL.Path)
		status(307, probe.RefusalHeader, probe.RefusalElsewhere)(w, r)
	}))
	t.Cleanup(away.Close)
	for name, c := range map[string]struct {
		behind string
		status int // 0: ErrRedirected
	}{
		"nobody leads":                       {vacant.url, 503},
		"nobody leads, of an older version":  {"http://" + old, 503},
		"misdirected":                        {"http://" + misdirected, 421},
		"another leads":                      {following, 0},
		"another leads, of an older version": {away.URL, 0},
	} {
		for _, group := range []string{"orders", "reports"} {
			for guard, guarded := range map[string]bool{"guarded": true, "unguarded": false} {
				t.Run(strings.Join([]string{name, group, guard}, "/"), func(t *testing.T) {
					g := gate(t, group, guarded, c.behind)
					client := reach(t, told(nil, g.info), leaderhttp.Options{})
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://orders/pay", strings.NewReader("10 EUR"))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Authorization", "Bearer of-the-client")
					want := c.status
					if want == 0 && guarded {
						want = 503 // what was redirected was the handler
					}
					resp, err := client.Do(req)
					code := 0
					if err == nil {
						code = resp.StatusCode
						_ = resp.Body.Close()
					}
					if code != want || (want == 0) != errors.Is(err, leaderhttp.ErrRedirected) {
						t.Errorf("%d, %v; want %d", code, err, want)
					}
					if n := g.charged.Load(); n != 1 || stranger.got.Load() != 0 {
						t.Errorf("the handler ran %d times, and a stranger got %d requests", n, stranger.got.Load())
					}
				})
			}
		}
	}
}

// The gateway's process may lead both groups, under one address.
func TestARefusalThatLeadsBackToTheHandlerDoesNotRunItAgain(t *testing.T) {
	var back atomic.Pointer[string]
	behind, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		status(307, probe.RefusalHeader, probe.RefusalElsewhere, probe.GroupHeader, "reports", "Location", *back.Load()+r.URL.Path)(w, r)
	})
	for name, guarded := range map[string]bool{"guarded": true, "unguarded": false} {
		g := gate(t, "orders", guarded, "http://"+behind)
		back.Store(&g.info.Address)
		client := reach(t, told(nil, g.info), leaderhttp.Options{})
		_, _, err := post(client, "http://orders/pay", strings.NewReader("10 EUR"))
		if (err == nil) != guarded || g.charged.Load() != 1 {
			t.Errorf("%s: %v after %d runs", name, err, g.charged.Load())
		}
	}
}

// A service may redirect within itself, and no request goes elsewhere by the
// leader's word, or to the leader that is meant for another host.
func TestARedirectOfTheServiceStaysWithTheGroup(t *testing.T) {
	other, strayed := answers(t, status(200))
	for to, arrives := range map[string]bool{
		"/new": true, "http://reports/new": true, "http://LEADER/new": true,
		"http://" + other + "/new": false, "http://reports.example/new": false,
	} {
		t.Run(to, func(t *testing.T) {
			var arrived atomic.Int32
			address, asked := answers(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/new" {
					arrived.Add(1)
					return
				}
				status(308, "Location", strings.Replace(to, "LEADER", r.Host, 1))(w, r)
			})
			for name, transport := range map[string]http.RoundTripper{"": nil, "over a forgetful transport": forgetful{}} {
				arrived.Store(0)
				asked.Store(0)
				client := reach(t, told(nil, at("a", address, 1)), leaderhttp.Options{Transport: transport})
				_, _, err := post(client, "http://reports/old", strings.NewReader("x"))
				if arrives && (err != nil || arrived.Load() != 1) || !arrives && (!errors.Is(err, leaderhttp.ErrRedirected) || asked.Load() != 1) || strayed.Load() != 0 {
					t.Errorf("%s: %v after %d requests, of which %d arrived; %d strayed", name, err, asked.Load(), arrived.Load(), strayed.Load())
				}
			}
		})
	}
}

// The client goes on by the name of the leader before.
func TestARelativeRedirectOfTheNextLeaderStaysWithTheGroup(t *testing.T) {
	b, arrived := answers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/new" {
			status(308, "Location", "/new")(w, r)
		}
	})
	news := make(chan leader.LeaderInfo)
	a, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		for range 2 { // the second is taken when the first has been
			news <- at("b", b, 2)
		}
		status(308, "Location", "http://"+r.Host+"/mid")(w, r)
	})
	client := reach(t, told(news, at("a", a, 1)), leaderhttp.Options{})
	if code, _, err := post(client, "http://reports/old", strings.NewReader("x")); err != nil || code != 200 || arrived.Load() != 2 {
		t.Errorf("%d, %v after %d requests to the next leader", code, err, arrived.Load())
	}
}

// A forgetful transport does not set Response.Request, which http.RoundTripper
// does not require.
type forgetful struct{}

func (forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		resp.Request = nil
	}
	return resp, err
}

func TestNoRedirectOfTheServiceLeadsOutOfTLS(t *testing.T) {
	plain, asked := answers(t, status(200))
	secure := httptest.NewTLSServer(status(308, "Location", "http://reports/"))
	defer secure.Close()
	client := reach(t, told(nil, at("a", secure.URL, 1)), leaderhttp.Options{Transport: secure.Client().Transport, ServerName: example})
	if _, _, err := post(client, "https://reports/", strings.NewReader("x")); !errors.Is(err, leaderhttp.ErrRedirected) || asked.Load() != 0 {
		t.Errorf("%v; %d requests in the clear to %s", err, asked.Load(), plain)
	}
}

// Another server, which knows the group's name, may send a client to it.
func TestAClientMayBeRedirectedToTheGroup(t *testing.T) {
	a := stand(t, memstore.New(), "a")
	group := leaderhttp.New(told(nil, a.is(1)), leaderhttp.Options{})
	defer group.Close()
	portal := httptest.NewServer(status(308, "Location", "http://reports/x"))
	defer portal.Close()
	client := &http.Client{Transport: byHost{"reports": group}, Timeout: patience}
	if code, text, err := post(client, portal.URL, strings.NewReader("x")); err != nil || code != 200 {
		t.Errorf("%d %q, %v", code, text, err)
	}
}

// A byHost transport has one for some hosts, and the default for others.
type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if t := b[r.URL.Host]; t != nil {
		return t.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}
