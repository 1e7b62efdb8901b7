package trial

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

// An Answer is sent to a client for a write in place of the server's answer. A
// service or a gateway before it gives such answers under load, and the servers
// of the labs never do.
type Answer struct {
	Status int
	Code   string // the service's name for it; empty for the page of a gateway
	// Applied: the server was sent the write before, and has answered.
	Applied bool
	Want    store.Outcome
}

// A Gateway passes requests on, and answers the next write itself on request.
// It is the transport of a client.
type Gateway struct {
	// Method is the method of writes.
	Method string
	// Server is the transport by which requests are passed on.
	Server http.RoundTripper
	// Body is how the service words an answer with a code.
	Body func(Answer) (contentType, text string)

	mu     sync.Mutex
	next   *Answer
	writes int
}

// RoundTrip implements [http.RoundTripper].
func (g *Gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	a := g.answer(r)
	if a == nil {
		return g.Server.RoundTrip(r)
	}
	if a.Applied {
		res, err := g.Server.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return nil, err
		}
		if err := res.Body.Close(); err != nil {
			return nil, err
		}
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server has refused what it was to apply: %s", res.Status)
		}
	} else if r.Body != nil {
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	kind, text := "text/html", "<html>not now</html>"
	if a.Code != "" {
		kind, text = g.Body(*a)
	}
	return &http.Response{
		Status: fmt.Sprint(a.Status, " ", http.StatusText(a.Status)), StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// Clients that repeat by themselves obey it at once.
		Header: http.Header{"Content-Type": {kind}, "Retry-After": {"0"}},
		Body:   io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r,
	}, nil
}

// answer counts a write, and takes the answer that was set for it.
func (g *Gateway) answer(r *http.Request) *Answer {
	if r.Method != g.Method {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes++
	a := g.next
	g.next = nil
	return a
}

// Instead has the gateway answer the next write, and counts from now on.
func (g *Gateway) Instead(a Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next, g.writes = &a, 0
}

func (g *Gateway) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

// Answers judges what a store makes of each answer, to the creation of a
// register and to a write over one: the outcome, that the write was sent once,
// and what is in the register. s is a store by way of the gateway.
func (g *Gateway) Answers(t *testing.T, s store.Store, answers ...Answer) {
	t.Helper()
	n := 0
	for _, a := range answers {
		for _, create := range []bool{true, false} {
			n++
			key := fmt.Sprint("answered", n)
			name := fmt.Sprintf("%d%s, applied %t, creation %t", a.Status, a.Code, a.Applied, create)
			t.Run(name, func(t *testing.T) { g.judge(t, s, a, key, create) })
		}
	}
}

func (g *Gateway) judge(t *testing.T, s store.Store, a Answer, key string, create bool) {
	w := store.Write{Key: key, Value: []byte("mine")}
	if !create {
		w.Expected = Must(t, s, store.Write{Key: key, Value: []byte("before")})
	}
	g.Instead(a)
	_, err := s.CompareAndSwap(Within(t), w)
	Outcome(t, err, a.Want)
	if n := g.count(); n != 1 {
		t.Errorf("one call sent %d writes", n)
	}
	e := Get(t, s, key)
	if !a.Applied {
		if e.Revision != w.Expected {
			t.Fatalf("a write that never arrived left %+v", e)
		}
		Must(t, s, w) // the same write is as good as ever
		return
	}
	if e.Revision <= w.Expected || string(e.Value) != "mine" {
		t.Fatalf("a write that was applied left %+v", e)
	}
	_, err = s.CompareAndSwap(Within(t), w)
	Outcome(t, err, store.Conflict)
	Must(t, s, store.Write{Key: key, Expected: e.Revision})
}
