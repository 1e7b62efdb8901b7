package leaderhttp_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
)

// A network has hosts that drop what they are sent, named "gone", and others
// that serve.
type network struct {
	*http.Transport

	mu    sync.Mutex
	dials map[string]int
}

// dialed returns how often each host was dialed.
func (n *network) dialed() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.dials)
}

func (n *network) dial(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[address]++
}

// dialTimeout is the timeout of http.DefaultTransport.
const dialTimeout = 30 * time.Second

func newNetwork(t *testing.T, serve http.HandlerFunc) *network {
	t.Helper()
	l := &pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: serve}
	go func() { _ = server.Serve(l) }()
	n := &network{dials: map[string]int{}}
	n.Transport = &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		n.dial(address)
		if strings.HasPrefix(address, "gone") {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
		}
		if strings.HasPrefix(address, "far") {
			time.Sleep(time.Second)
		}
		near, far := net.Pipe()
		l.conns <- far
		return near, nil
	}}
	t.Cleanup(func() {
		time.Sleep(dialTimeout) // http.Transport lets those go on that nobody waits for
		n.CloseIdleConnections()
		_ = server.Close()
	})
	return n
}

func ok(http.ResponseWriter, *http.Request) {}

// after delivers an observation when so much time has passed.
func after(d time.Duration, info leader.LeaderInfo) chan leader.LeaderInfo {
	news := make(chan leader.LeaderInfo, 3)
	time.AfterFunc(d, func() { news <- info })
	return news
}

func TestALeaderWhoseHostIsGoneIsLeftWhenAnotherLeads(t *testing.T) {
	for name, c := range map[string]struct{ known, served time.Duration }{
		"while it is dialed": {3 * time.Second, 3 * time.Second},
		"after RetryFor":     {12 * time.Second, 12 * time.Second},
		// Until then it may merely be slow.
		"at once": {time.Millisecond, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ok)
				client := reach(t, told(after(c.known, at("b", "next:80", 2)), at("a", "gone:80", 1)), leaderhttp.Options{Transport: n})
				begun := time.Now()
				code, _, err := post(client, "http://reports/", strings.NewReader("hello"))
				if took := time.Since(begun); err != nil || code != 200 || took < c.served || took > c.served+20*time.Millisecond {
					t.Errorf("%d, %v after %v", code, err, took)
				}
			})
		})
	}
}

// The known leader is worth a try when no connection could be opened, however
// long that took.
func TestAfterALongDialTheLeaderThatIsKnownIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, ok)
		hidden := traceless{n} // so that nothing is known of the dial
		client := reach(t, told(after(3*time.Second, at("b", "next:80", 2)), at("a", "gone:80", 1)), leaderhttp.Options{Transport: hidden})
		begun := time.Now()
		code, _, err := post(client, "http://reports/", strings.NewReader("hello"))
		if took := time.Since(begun); err != nil || code != 200 || took < dialTimeout {
			t.Errorf("%d, %v after %v", code, err, took)
		}
	})
}

func TestARequestThatWasRefusedLateGoesToTheLeaderThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "a:80" {
				time.Sleep(2 * leaderhttp.DefaultRetryFor)
				refusal(421, probe.RefusalNoLeader)(w, r)
			}
		})
		client := reach(t, told(after(3*time.Second, at("b", "b:80", 2)), at("a", "a:80", 1)), leaderhttp.Options{Transport: n})
		if code, _, err := post(client, "http://reports/", strings.NewReader("hello")); err != nil || code != 200 || n.dialed()["a:80"] != 1 {
			t.Errorf("%d, %v, and %v", code, err, n.dialed())
		}
	})
}

// A transport may do something else first.
func TestNewsBeforeADialCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staged{}
		s.act = func(r *http.Request, t *httptrace.ClientTrace) (*http.Response, error) {
			if s.asked > 1 {
				return served(), nil
			}
			time.Sleep(4 * time.Second)
			t.GetConn("a:80")
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		client := reach(t, told(after(3*time.Second, at("b", "b:80", 2)), at("a", "a:80", 1)), leaderhttp.Options{Transport: s})
		if code, _, err := post(client, "http://reports/", strings.NewReader("hello")); err != nil || code != 200 || s.asked != 2 {
			t.Errorf("%d, %v after %d requests", code, err, s.asked)
		}
	})
}

// A traceless transport reports nothing about its connections.
type traceless struct{ http.RoundTripper }

func (l traceless) RoundTrip(r *http.Request) (*http.Response, error) {
	return l.RoundTripper.RoundTrip(r.WithContext(bare{r.Context()}))
}

// A bare context has no values.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

func TestADialIsNotEndedForARequestThatCannotBeSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		opts leaderhttp.Options
	}{
		"its body":        {io.MultiReader(strings.NewReader("hello")), leaderhttp.Options{}},
		"it is sent once": {strings.NewReader("hello"), leaderhttp.Options{RetryFor: -1}},
		"its tries":       {strings.NewReader("hello"), leaderhttp.Options{Tries: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ok)
				c.opts.Transport = n
				client := reach(t, told(after(3*time.Second, at("b", "next:80", 2)), at("a", "gone:80", 1)), c.opts)
				synctest.Wait() // until the first is known
				begun := time.Now()
				_, _, err := post(client, "http://reports/", c.body)
				if took := time.Since(begun); err == nil || took != dialTimeout || n.dialed()["next:80"] != 0 {
					t.Errorf("%v after %v, and %v", err, took, n.dialed())
				}
			})
		})
	}
}

// The place that a refusal names belongs to a leader that the observer has not
// reported yet.
func TestADialToWhereARefusalLedGoesOnWhenThatLeaderIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		to    string
		term  string // by the refusal
		later leader.LeaderInfo
		want  map[string]int
	}{
		"it leads":          {"far:80", "2", at("b", "far:80", 2), map[string]int{"a:80": 1, "far:80": 1}},
		"another one leads": {"gone:80", "2", at("c", "next:80", 3), map[string]int{"a:80": 1, "gone:80": 1, "next:80": 1}},
		"it names a term that no election reaches": {
			"gone:80", "18446744073709551615", at("c", "next:80", 3), map[string]int{"a:80": 1, "gone:80": 2, "next:80": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Host == "a:80" {
						w.Header().Set(probe.TermHeader, c.term)
						refusal(307, probe.RefusalElsewhere, "Location", "http://"+c.to+"/")(w, r)
					}
				})
				news := after(400*time.Millisecond, at("b", c.to, 2))
				time.AfterFunc(500*time.Millisecond, func() { news <- c.later })
				client := reach(t, told(news, at("a", "a:80", 1)), leaderhttp.Options{Transport: n})
				code, _, err := post(client, "http://reports/", strings.NewReader("hello"))
				if err != nil || code != 200 || !maps.Equal(n.dialed(), c.want) {
					t.Errorf("%d, %v after %v, want %v", code, err, n.dialed(), c.want)
				}
			})
		})
	}
}

// A staged transport handles a request as the test sets.
type staged struct {
	asked int
	act   func(r *http.Request, t *httptrace.ClientTrace) (*http.Response, error)
}

func (s *staged) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	_ = r.Body.Close()
	return s.act(r, httptrace.ContextClientTrace(r.Context()))
}

func served() *http.Response { return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody} }

// It may have been sent: a transport may get its connection at the moment at
// which it is cancelled.
func TestARequestThatMayHaveBeenSentIsNotSentAgain(t *testing.T) {
	// lasts waits for the end of the request's context, or for long enough.
	lasts := func(r *http.Request) (*http.Response, error) {
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-time.After(5 * time.Second):
			return served(), nil
		}
	}
	for name, c := range map[string]struct {
		act  func(r *http.Request, t *httptrace.ClientTrace) (*http.Response, error)
		fine bool
	}{
		"it had a connection": {func(r *http.Request, t *httptrace.ClientTrace) (*http.Response, error) {
			t.GetConn("a:80")
			t.GotConn(httptrace.GotConnInfo{})
			return lasts(r)
		}, true},
		"it had one, and seeks the next": {func(r *http.Request, t *httptrace.ClientTrace) (*http.Response, error) {
			t.GetConn("a:80")
			t.GotConn(httptrace.GotConnInfo{})
			t.GetConn("a:80")
			return lasts(r)
		}, true},
		"it says nothing of connections": {func(r *http.Request, _ *httptrace.ClientTrace) (*http.Response, error) { return lasts(r) }, true},
		"it gets one too late": {func(r *http.Request, t *httptrace.ClientTrace) (*http.Response, error) {
			t.GetConn("a:80")
			<-r.Context().Done()
			t.GotConn(httptrace.GotConnInfo{})
			return lasts(r)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &staged{act: c.act}
				client := reach(t, told(after(3*time.Second, at("b", "b:80", 2)), at("a", "a:80", 1)), leaderhttp.Options{Transport: s})
				code, _, err := post(client, "http://reports/", strings.NewReader("hello"))
				if (err == nil) != c.fine || c.fine && code != 200 || s.asked != 1 || errors.Is(err, leaderhttp.ErrGivenUp) == c.fine || errors.Is(err, leaderhttp.ErrNoLeader) {
					t.Errorf("%d, %v after %d requests", code, err, s.asked)
				}
			})
		})
	}
}

// Contexts of callers may last for long.
func TestTheContextOfARequestEndsWithItsAnswer(t *testing.T) {
	far, near := net.Pipe()
	defer far.Close() //nolint:errcheck // a fixture
	for name, c := range map[string]struct {
		answer io.ReadCloser
		end    func(io.ReadCloser) error
	}{
		"closed":   {io.NopCloser(strings.NewReader("hello")), io.ReadCloser.Close},
		"read":     {io.NopCloser(strings.NewReader("hello")), func(b io.ReadCloser) error { _, err := io.ReadAll(b); return err }},
		"none":     {http.NoBody, io.ReadCloser.Close},
		"upgraded": {near, io.ReadCloser.Close},
	} {
		t.Run(name, func(t *testing.T) {
			contexts := make(chan context.Context, 1)
			s := &staged{act: func(r *http.Request, _ *httptrace.ClientTrace) (*http.Response, error) {
				contexts <- r.Context()
				return &http.Response{StatusCode: http.StatusOK, Body: c.answer}, nil
			}}
			tr := leaderhttp.New(told(nil, at("a", "a:80", 1)), leaderhttp.Options{Transport: s})
			defer tr.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://reports/", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // once more
			sent := <-contexts
			if c.answer == http.NoBody {
				if resp.Body != http.NoBody || sent.Err() == nil {
					t.Errorf("a %T, and the context %v", resp.Body, sent.Err())
				}
				return
			}
			if sent.Err() != nil {
				t.Error("it ended before")
			}
			if _, writes := resp.Body.(io.Writer); writes != (name == "upgraded") {
				t.Errorf("a %T", resp.Body)
			}
			if err := c.end(resp.Body); err != nil || sent.Err() == nil {
				t.Errorf("%v, and the context lasts", err)
			}
		})
	}
}
