package leaderhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// patience bounds what happens in milliseconds on a machine with time to spare.
const patience = time.Minute

// A site is a candidate with a web server.
type site struct {
	leader.Election

	id   string
	url  string
	runs atomic.Int32 // of the handler
	got  atomic.Int32 // requests, refused ones included
}

// stand starts a site whose handler repeats the request that it got.
func stand(t *testing.T, st store.Store, id string) *site {
	t.Helper()
	s := &site{id: id}
	var h http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.got.Add(1)
		http.StripPrefix("/base", h).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL + "/base"
	var err error
	s.Election, err = leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "reports", InstanceID: id, Address: s.url, TTL: time.Minute, HeartbeatInterval: time.Second, DeleteOnStop: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	h = probe.Redirect(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s?%s %s", id, r.Method, r.URL.EscapedPath(), r.URL.RawQuery, b)
	}), probe.RedirectOptions{})
	if err := s.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for info := range s.Observe(ctx) {
		if info.ID != "" {
			return s
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// is what an observer reports that sees the site lead in a term.
func (s *site) is(term uint64) leader.LeaderInfo { return at(s.id, s.url, term) }

func at(id, address string, term uint64) leader.LeaderInfo {
	return leader.LeaderInfo{Group: "reports", ID: id, Term: term, Address: address}
}

type observe func(context.Context) iter.Seq2[leader.LeaderInfo, error]

func observing(st store.Store) observe {
	return func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
		return leader.ObserveWithStore(ctx, st, "reports")
	}
}

// told observes what a test sends, beginning with the first.
func told(news <-chan leader.LeaderInfo, first ...leader.LeaderInfo) observe {
	return func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
		return func(yield func(leader.LeaderInfo, error) bool) {
			for _, info := range first {
				if !yield(info, nil) {
					return
				}
			}
			for {
				select {
				case info := <-news:
					if !yield(info, nil) {
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

func reach(t *testing.T, o observe, opts leaderhttp.Options) *http.Client {
	t.Helper()
	tr := leaderhttp.New(o, opts)
	t.Cleanup(tr.Close)
	return &http.Client{Transport: tr, Timeout: patience}
}

func post(client *http.Client, target string, body io.Reader) (status int, text string, err error) {
	resp, err := client.Post(target, "text/plain", body)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func demand(t *testing.T, client *http.Client, want string) {
	t.Helper()
	if status, text, err := post(client, "http://reports/x%2Fy?q=1;2&z", strings.NewReader("hello")); err != nil || status != 200 || text != want {
		t.Errorf("%d %q, %v; want %q", status, text, err, want)
	}
}

func TestRequestsGoToTheLeader(t *testing.T) {
	st := memstore.New()
	a, b := stand(t, st, "a"), stand(t, st, "b")
	client := reach(t, observing(st), leaderhttp.Options{})
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")
	if err := a.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Its server answers still, but refuses.
	demand(t, client, "b POST /x%2Fy?q=1;2&z hello")
	if a.runs.Load() != 1 || b.runs.Load() != 1 {
		t.Errorf("%d and %d handlers ran", a.runs.Load(), b.runs.Load())
	}
}

func TestNoRequestIsLostOrServedTwiceInHandovers(t *testing.T) {
	st := memstore.New()
	sites := []*site{stand(t, st, "a"), stand(t, st, "b")}
	client := reach(t, observing(st), leaderhttp.Options{})
	var stop atomic.Bool
	var sent atomic.Int32
	send := func() {
		sent.Add(1)
		if status, text, err := post(client, "http://reports/", strings.NewReader("x")); err != nil || status != 200 {
			t.Errorf("%d %q, %v", status, text, err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			send()
		}
	}()
	for i := range 6 {
		if err := sites[i%2].Resign(t.Context()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for info := range sites[(i+1)%2].Observe(ctx) {
			if info.ID == sites[(i+1)%2].id {
				break
			}
		}
		cancel()
		send()
	}
	stop.Store(true)
	<-done
	if n, served := sent.Load(), sites[0].runs.Load()+sites[1].runs.Load(); served != n {
		t.Errorf("%d requests were served %d times", n, served)
	}
}

// The observer has stopped at the leader before.
func TestARefusalIsFollowed(t *testing.T) {
	st := memstore.New()
	b, a := stand(t, st, "b"), stand(t, st, "a")
	client := reach(t, told(nil, a.is(b.Term().Number-1)), leaderhttp.Options{})
	demand(t, client, "b POST /x%2Fy?q=1;2&z hello")
	if a.got.Load() != 1 || a.runs.Load() != 0 {
		t.Errorf("%d requests, %d served", a.got.Load(), a.runs.Load())
	}
}

func TestRequestsWaitForALeader(t *testing.T) {
	a := stand(t, memstore.New(), "a")
	news := make(chan leader.LeaderInfo)
	vacant := leader.LeaderInfo{Group: "reports", Term: 3, Reason: leader.ReasonStopped}
	client := reach(t, told(news, vacant), leaderhttp.Options{})
	go func() { news <- a.is(9) }()
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")

	for _, c := range []struct {
		first []leader.LeaderInfo
		want  string
	}{
		{nil, "no record of the group was received"},
		{[]leader.LeaderInfo{vacant}, `nobody leads group "reports": stopped, after term 3`},
		{[]leader.LeaderInfo{at("a", "ftp://x", 4)}, "no address of a web server"},
		{[]leader.LeaderInfo{at("a", "", 4)}, "no address of a web server"},
		{[]leader.LeaderInfo{at("a", ":8080", 4)}, "no address of a web server"},
		{[]leader.LeaderInfo{at("a", "http://0.0.0.0:8080", 4)}, "no address of a web server"},
	} {
		var err error
		// On a busy machine nothing may be heard within the first.
		for wait := 50 * time.Millisecond; wait < time.Minute; wait *= 5 {
			client := reach(t, told(nil, c.first...), leaderhttp.Options{RetryFor: wait})
			if _, _, err = post(client, "http://reports/", strings.NewReader("x")); err == nil || strings.Contains(err.Error(), c.want) {
				break
			}
		}
		if !errors.Is(err, leaderhttp.ErrNoLeader) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	client = reach(t, told(nil, vacant), leaderhttp.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	body := &closing{Reader: strings.NewReader("x")}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://reports/", body)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.Do(req); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // there is none
		t.Errorf("%v, %v", resp, err)
	}
	if !body.closed.Load() {
		t.Error("the body was left open")
	}
}

// Without a known leader the error contains the observer's trouble, which does
// not make the transport give up a known leader.
func TestTroubleOfTheObserverMovesNoRequest(t *testing.T) {
	away := errors.New("the store is away")
	troubled := func(heard chan<- struct{}, first ...leader.LeaderInfo) observe {
		return func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
			return func(yield func(leader.LeaderInfo, error) bool) {
				for _, info := range first {
					yield(info, nil)
				}
				yield(leader.LeaderInfo{Group: "reports"}, away)
				close(heard)
				<-ctx.Done()
			}
		}
	}
	a, heard := stand(t, memstore.New(), "a"), make(chan struct{})
	client := reach(t, troubled(heard, a.is(9)), leaderhttp.Options{})
	<-heard
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")

	heard = make(chan struct{})
	client = reach(t, troubled(heard), leaderhttp.Options{RetryFor: time.Millisecond})
	<-heard
	if _, _, err := post(client, "http://reports/", http.NoBody); !errors.Is(err, leaderhttp.ErrNoLeader) || !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
}

// A negative RetryFor: sent once, and not at all where nobody is known.
func TestWithoutARetryARequestIsSentOnce(t *testing.T) {
	// The refusal leads to itself.
	address, asked := answers(t, refusal(307, probe.RefusalElsewhere, "Location", "/"))
	for _, first := range []leader.LeaderInfo{at("a", address, 1), {Group: "reports", Term: 3, Reason: leader.ReasonStopped}} {
		heard := make(chan struct{})
		client := reach(t, func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
			return func(yield func(leader.LeaderInfo, error) bool) {
				yield(first, nil)
				close(heard)
				<-ctx.Done()
			}
		}, leaderhttp.Options{RetryFor: -1})
		<-heard
		if _, _, err := post(client, "http://reports/", http.NoBody); !errors.Is(err, leaderhttp.ErrNoLeader) || asked.Load() != 1 {
			t.Errorf("%v after %d requests", err, asked.Load())
		}
	}
}

func TestOptionsSayWhereALeaderIs(t *testing.T) {
	a := stand(t, memstore.New(), "a")
	client := reach(t, told(nil, at("a", "grpc://elsewhere", 1)), leaderhttp.Options{
		Base: func(_ *http.Request, l leader.LeaderInfo) *url.URL {
			u, err := url.Parse(a.url)
			if err != nil || l.ID != "a" {
				t.Error(l, err)
			}
			return u
		},
	})
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")
}

// What Base knows may change between two questions.
func TestLeaderAddressIsOfWhenTheRequestWasSent(t *testing.T) {
	a := stand(t, memstore.New(), "a")
	var asked atomic.Int32
	client := reach(t, told(nil, at("a", "", 1)), leaderhttp.Options{
		Base: func(*http.Request, leader.LeaderInfo) *url.URL {
			if asked.Add(1) > 1 {
				return nil
			}
			u, err := url.Parse(a.url)
			if err != nil {
				t.Error(err)
			}
			return u
		},
	})
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")
}

func TestOtherSchemesAreRefused(t *testing.T) {
	client := reach(t, told(nil, at("a", "127.0.0.1:1", 1)), leaderhttp.Options{})
	body := &closing{Reader: strings.NewReader("x")}
	for _, b := range []io.Reader{body, nil} {
		if _, _, err := post(client, "gopher://reports/", b); err == nil || !strings.Contains(err.Error(), `scheme "gopher"`) {
			t.Errorf("%v", err)
		}
	}
	if !body.closed.Load() {
		t.Error("the body was left open")
	}
}

type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

func TestASilentLeaderKeepsItsRequests(t *testing.T) {
	a := stand(t, memstore.New(), "a")
	client := reach(t, told(nil, a.is(9), leader.LeaderInfo{Group: "reports", Term: 9, Reason: leader.ReasonExpired}), leaderhttp.Options{})
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")
}

func TestALeaderThatIsGoneIsNotWaitedFor(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	_ = l.Close()
	a := stand(t, memstore.New(), "a")
	news := make(chan leader.LeaderInfo)
	client := reach(t, told(news, at("gone", gone, 1)), leaderhttp.Options{})
	go func() { news <- a.is(9) }()
	demand(t, client, "a POST /x%2Fy?q=1;2&z hello")
	client = reach(t, told(nil, at("gone", gone, 1)), leaderhttp.Options{Tries: 2})
	var op *net.OpError
	if _, _, err := post(client, "http://reports/", http.NoBody); !errors.Is(err, leaderhttp.ErrNoLeader) || !errors.As(err, &op) {
		t.Errorf("%v", err)
	}
}

// answers is a leader that answers every request with serve.
func answers(t *testing.T, serve http.HandlerFunc) (address string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		serve(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), asked
}

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

// refusal is an answer of a follower of the group that clients ask.
func refusal(code int, kind string, headers ...string) http.HandlerFunc {
	return status(code, append([]string{probe.RefusalHeader, kind, probe.GroupHeader, "reports"}, headers...)...)
}

func TestOnlyWhatNoHandlerHasSeenIsSentAgain(t *testing.T) {
	const tries = 3
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		body   io.Reader
		asked  int32
		status int // 0: an error
	}{
		"a 503 of the service":            {status(503), strings.NewReader("x"), 1, 503},
		"a 500 of the service":            {status(500), strings.NewReader("x"), 1, 500},
		"a 409 with a mark":               {refusal(409, "x"), strings.NewReader("x"), 1, 409},
		"a 421 of the service":            {status(421), strings.NewReader("x"), 1, 421},
		"a 503 of another group":          {status(503, probe.RefusalHeader, probe.RefusalNoLeader, probe.GroupHeader, "other"), strings.NewReader("x"), 1, 503},
		"a 421 of another group":          {status(421, probe.RefusalHeader, "x", probe.GroupHeader, "other"), strings.NewReader("x"), 1, 421},
		"a 503 of an older version":       {status(503, probe.RefusalHeader, probe.RefusalNoLeader), strings.NewReader("x"), 1, 503},
		"a 503 by another address":        {refusal(503, probe.RefusalNoLeader, probe.RefusedByHeader, "10.0.0.1:80"), strings.NewReader("x"), 1, 503},
		"a marked 503":                    {refusal(503, probe.RefusalNoLeader), strings.NewReader("x"), tries, 0},
		"a marked 421":                    {refusal(421, probe.RefusalNoLeader), strings.NewReader("x"), tries, 0},
		"a marked 307 without a place":    {refusal(307, probe.RefusalElsewhere), strings.NewReader("x"), tries, 0},
		"a marked 307 to no web server":   {refusal(307, probe.RefusalElsewhere, "Location", "ftp://x/"), strings.NewReader("x"), tries, 0},
		"a marked 503 with a place":       {refusal(503, probe.RefusalNoLeader, "Location", "http://127.0.0.1:1/"), strings.NewReader("x"), tries, 0},
		"a marked 503, a body of no copy": {refusal(503, probe.RefusalNoLeader), io.MultiReader(strings.NewReader("x")), 1, 503},
		"a marked 421, a body of no copy": {refusal(421, probe.RefusalNoLeader), io.MultiReader(strings.NewReader("x")), 1, 421},
		"a marked 503, no body":           {refusal(503, probe.RefusalNoLeader), nil, tries, 0},
	} {
		t.Run(name, func(t *testing.T) {
			address, asked := answers(t, c.answer)
			client := reach(t, told(nil, at("a", address, 1)), leaderhttp.Options{Tries: tries})
			code, _, err := post(client, "http://reports/", c.body)
			if code != c.status || (c.status == 0) != errors.Is(err, leaderhttp.ErrNoLeader) || asked.Load() != c.asked {
				t.Errorf("%d, %v after %d requests", code, err, asked.Load())
			}
		})
	}
}

// An ordinary redirect is the client's affair, and stays with the leader.
func TestRedirectsOfTheServiceAreTheClients(t *testing.T) {
	address, asked := answers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprint(w, r.Host, r.URL.Path)
	})
	client := reach(t, told(nil, at("a", address, 1)), leaderhttp.Options{})
	if code, text, err := post(client, "http://reports/old", strings.NewReader("x")); err != nil || code != 200 || text != address+"/new" || asked.Load() != 2 {
		t.Errorf("%d %q, %v after %d requests", code, text, err, asked.Load())
	}
}

// example is a name for which the certificates of package httptest are good.
func example(leader.LeaderInfo) string { return "example.com" }

// A request sent under TLS must not be sent without it.
func TestNoRefusalLeadsOutOfTLS(t *testing.T) {
	plain, asked := answers(t, status(200))
	secure := httptest.NewTLSServer(refusal(307, probe.RefusalElsewhere, "Location", "http://"+plain+"/"))
	defer secure.Close()
	client := reach(t, told(nil, at("a", secure.URL, 1)), leaderhttp.Options{Transport: secure.Client().Transport, Tries: 2, ServerName: example})
	if code, _, err := post(client, "https://reports/", strings.NewReader("x")); !errors.Is(err, leaderhttp.ErrNoLeader) || asked.Load() != 0 {
		t.Errorf("%d, %v; %d requests in the clear", code, err, asked.Load())
	}
}

// A record must not make a client send cookies and passwords in the clear.
func TestNoRecordLeadsOutOfTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{err: errors.New("out of order")}
		client := reach(t, told(nil, at("a", "http://10.0.0.1", 1)), leaderhttp.Options{Transport: f})
		_, _, err := post(client, "https://reports/", strings.NewReader("x"))
		if !errors.Is(err, leaderhttp.ErrNoLeader) || !strings.Contains(err.Error(), "an address without TLS") || f.asked != 0 {
			t.Errorf("%v after %d requests", err, f.asked)
		}
		client = reach(t, told(nil, at("a", "https://10.0.0.1", 1)), leaderhttp.Options{Transport: f})
		if _, _, err := post(client, "http://reports/", strings.NewReader("x")); !errors.Is(err, f.err) || f.asked != 1 {
			t.Errorf("%v after %d requests", err, f.asked)
		}
	})
}

// The program may know better than a record where TLS is not needed, but a
// server does not.
func TestBaseMayLeadOutOfTLSAndItsServerMayNot(t *testing.T) {
	other, asked := answers(t, status(200))
	var served atomic.Bool
	first, refused := answers(t, func(w http.ResponseWriter, r *http.Request) {
		if !served.Swap(true) {
			refusal(307, probe.RefusalElsewhere, "Location", "http://"+other+"/")(w, r)
		}
	})
	client := reach(t, told(nil, at("a", "", 1)), leaderhttp.Options{
		Base: func(*http.Request, leader.LeaderInfo) *url.URL { return &url.URL{Scheme: "http", Host: first} },
	})
	if code, _, err := post(client, "https://reports/", strings.NewReader("x")); err != nil || code != 200 || refused.Load() != 2 || asked.Load() != 0 {
		t.Errorf("%d, %v after %d requests, and %d where the refusal led", code, err, refused.Load(), asked.Load())
	}
}

func TestARefusalLeadsToAnotherServerOfTLS(t *testing.T) {
	to := httptest.NewTLSServer(status(200))
	defer to.Close()
	from := httptest.NewTLSServer(refusal(307, probe.RefusalElsewhere, "Location", to.URL))
	defer from.Close()
	// A single transport serves both: one authority issued their certificates.
	client := reach(t, told(nil, at("a", from.URL, 1)), leaderhttp.Options{Transport: from.Client().Transport, ServerName: example})
	if code, _, err := post(client, "https://reports/", strings.NewReader("x")); err != nil || code != 200 {
		t.Errorf("%d, %v", code, err)
	}
}

// A failing transport fails as the test sets.
type failing struct {
	asked int
	err   error
}

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked++
	_ = r.Body.Close() // as a RoundTripper has to
	return nil, f.err
}

// An error without a report about the connection leaves the request's outcome
// unknown. Its body is the one that the caller gave, which is closed.
func TestAnErrorOfTheTransportIsTheCallers(t *testing.T) {
	f := &failing{err: errors.New("out of order")}
	client := reach(t, told(nil, at("a", "127.0.0.1:1", 1)), leaderhttp.Options{Transport: f})
	body := &closing{Reader: strings.NewReader("x")}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://reports/", body)
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
	if resp, err := client.Do(req); !errors.Is(err, f.err) || errors.Is(err, leaderhttp.ErrNoLeader) || f.asked != 1 { //nolint:bodyclose // there is none
		t.Errorf("%v, %v after %d requests", resp, err, f.asked)
	}
	if !body.closed.Load() {
		t.Error("the body was left open")
	}
}

// The handler may have run: what became of the request is for the caller to
// find out.
func TestARequestWhoseConnectionBreaksIsNotSentAgain(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // the test is over
	var arrived atomic.Int32
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			arrived.Add(1)
			_ = c.(*net.TCPConn).SetLinger(0) //nolint:errcheck,forcetypeassert // it is one
			_ = c.Close()                     // by a reset
		}
	}()
	client := reach(t, told(nil, at("a", "http://"+ln.Addr().String(), 5)), leaderhttp.Options{RetryFor: 200 * time.Millisecond})
	if _, _, err := post(client, "http://reports/", strings.NewReader("hello")); err == nil || errors.Is(err, leaderhttp.ErrNoLeader) {
		t.Errorf("%v", err)
	}
	if n := arrived.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

// The name in the URL names the group, and a server knows its own.
func TestTheLeaderIsAskedByItsOwnName(t *testing.T) {
	hosts := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host }))
	defer server.Close()
	client := reach(t, told(nil, at("a", server.URL, 5)), leaderhttp.Options{})
	if _, _, err := post(client, "http://reports/", nil); err != nil {
		t.Fatal(err)
	}
	if host := <-hosts; "http://"+host != server.URL {
		t.Errorf("asked for %q", host)
	}
	// But a Host that the request sets itself is kept.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://reports/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "reports.example"
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if host := <-hosts; host != req.Host {
		t.Errorf("asked for %q", host)
	}
}

// A summed request has a trailer that is known when its body has been read.
func summed(t *testing.T, target string, read func(r io.Reader, p []byte) (int, error)) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer, req.ContentLength = http.Header{"Sum": nil}, -1
	req.GetBody = func() (io.ReadCloser, error) {
		text := strings.NewReader("hello")
		return io.NopCloser(readFunc(func(p []byte) (int, error) {
			n, err := read(text, p)
			if errors.Is(err, io.EOF) {
				req.Trailer.Set("Sum", strconv.Itoa(int(text.Size())))
			}
			return n, err
		})), nil
	}
	req.Body, _ = req.GetBody()
	return req
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestTrailersArriveThatAreSetWhileTheBodyIsRead(t *testing.T) {
	for name, version := range map[string]int{"HTTP/1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Bool
			sums := make(chan string, 2)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				sums <- fmt.Sprint(r.ProtoMajor, " ", r.Trailer.Get("Sum"))
				if !refused.Swap(true) {
					refusal(503, probe.RefusalNoLeader)(w, r)
				}
			}))
			server.EnableHTTP2 = version == 2
			server.StartTLS()
			defer server.Close()
			client := reach(t, told(nil, at("a", server.URL, 5)), leaderhttp.Options{Transport: server.Client().Transport, ServerName: example})
			resp, err := client.Do(summed(t, "https://reports/", io.Reader.Read))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			for range 2 {
				if sum := <-sums; sum != fmt.Sprint(version, " 5") {
					t.Errorf("HTTP/%s is the sum", sum)
				}
			}
		})
	}
}

// An early transport answers that nobody leads while it reads the body, and
// closes it to end that, as HTTP/2 does.
type early struct{ asked int }

func (e *early) RoundTrip(r *http.Request) (*http.Response, error) {
	e.asked++
	go func() {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Trailer.Get("Sum")
	}()
	time.AfterFunc(time.Second, func() { _ = r.Body.Close() })
	resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Header: http.Header{}}
	resp.Header.Set(probe.RefusalHeader, probe.RefusalNoLeader)
	resp.Header.Set(probe.GroupHeader, "reports")
	return resp, nil
}

// Both would set the trailers of one request.
func TestTheNextBodyOfARequestWithTrailersWaitsForTheOneBefore(t *testing.T) {
	for name, takes := range map[string]time.Duration{"it is closed late": 0, "a read lasts longer": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := new(early)
				var reading atomic.Int32
				client := reach(t, told(nil, at("a", "10.0.0.1:80", 5)), leaderhttp.Options{Transport: e, Tries: 2})
				begun := time.Now()
				_, err := client.Do(summed(t, "http://reports/", func(r io.Reader, p []byte) (int, error) { //nolint:bodyclose // there is none
					if reading.Add(1) > 1 {
						t.Error("two bodies are read at a time")
					}
					defer reading.Add(-1)
					time.Sleep(takes)
					return r.Read(p)
				}))
				if took := time.Since(begun); !errors.Is(err, leaderhttp.ErrNoLeader) || e.asked != 2 || took < time.Second {
					t.Errorf("%v after %d requests, and %v", err, e.asked, took)
				}
				time.Sleep(time.Minute) // until the last body is closed
			})
		})
	}
}

// A bodies transport counts the bodies of answers that are open.
type bodies struct{ open atomic.Int32 }

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		b.open.Add(1)
		resp.Body = &body{resp.Body, &b.open}
	}
	return resp, err
}

type body struct {
	io.ReadCloser

	open *atomic.Int32
}

func (b *body) Close() error {
	b.open.Add(-1)
	return b.ReadCloser.Close()
}

func TestRefusalsLeaveNoConnectionBehind(t *testing.T) {
	var refused atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused.Add(1) <= 3 {
			refusal(503, "vacant")(w, r)
		}
	}))
	defer server.Close()
	b := new(bodies)
	client := reach(t, told(nil, at("a", server.URL, 5)), leaderhttp.Options{Transport: b})
	if status, _, err := post(client, "http://reports/", nil); err != nil || status != http.StatusOK || refused.Load() != 4 {
		t.Errorf("%d, %v after %d requests", status, err, refused.Load())
	}
	if n := b.open.Load(); n != 0 {
		t.Errorf("%d answers are open", n)
	}
}

func TestCloseWaitsForTheObserver(t *testing.T) {
	began, ended := make(chan struct{}), false
	tr := leaderhttp.New(func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
		return func(func(leader.LeaderInfo, error) bool) {
			close(began)
			<-ctx.Done()
			runtime.Gosched()
			ended = true
		}
	}, leaderhttp.Options{})
	<-began
	tr.Close()
	if !ended { // which would also be a race
		t.Error("it still observes")
	}
}
