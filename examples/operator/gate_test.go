package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A gate is between one operator and the API server. It notes each write, and
// can hold writes, which then reach the server whatever has become of the
// operator meanwhile, as writes do that are under way in a network.
type gate struct {
	front  *httptest.Server
	behind http.RoundTripper
	target *url.URL

	mu     sync.Mutex
	open   chan struct{} // closed while writes pass
	writes []write
}

// A write is one request to write, with what the API server answered.
type write struct {
	term    uint64    // that it states
	arrived time.Time // at the gate
	status  int       // 0 until it is answered
	answer  string
}

// accepted reports whether the API server has done it.
func (w write) accepted() bool { return w.status >= 200 && w.status < 300 }

func (s *stage) gate() *gate {
	s.Helper()
	behind, err := rest.TransportFor(s.srv.Anonymous())
	if err != nil {
		s.Fatal(err)
	}
	g := &gate{behind: behind, target: &url.URL{Scheme: "https", Host: s.srv.Addr}, open: make(chan struct{})}
	close(g.open)
	reads := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(g.target) }, Transport: behind,
		FlushInterval: -1, // a watch has no end
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	g.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			g.write(w, r)
		} else {
			reads.ServeHTTP(w, r)
		}
	}))
	g.front.EnableHTTP2 = true
	g.front.StartTLS()
	s.Cleanup(func() {
		g.Open()
		g.front.CloseClientConnections()
		g.front.Close()
	})
	return g
}

// config is the account's, by way of the gate.
func (g *gate) config(t *testing.T, account *rest.Config) *rest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.front.Certificate().Raw})
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	c := rest.CopyConfig(account)
	c.Host, c.CAFile = g.front.URL, file
	return c
}

// Close holds the writes that come from now on.
func (g *gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// Open lets them pass, those that were held, too.
func (g *gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) write(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	i, open := g.arrives(body)
	<-open
	status, answer := http.StatusBadGateway, []byte(nil)
	// The operator may have ended meanwhile.
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = g.target.Scheme, g.target.Host, g.target.Host, ""
	out.Body = io.NopCloser(bytes.NewReader(body))
	res, err := g.behind.RoundTrip(out)
	if err == nil {
		answer, err = io.ReadAll(res.Body)
		err = errors.Join(err, res.Body.Close())
	}
	if err == nil {
		status = res.StatusCode
		for _, field := range []string{"Content-Type", "Content-Encoding"} {
			if v := res.Header.Get(field); v != "" {
				w.Header().Set(field, v)
			}
		}
	}
	g.mu.Lock()
	g.writes[i].status, g.writes[i].answer = status, string(answer)
	g.mu.Unlock()
	w.WriteHeader(status)
	_, _ = w.Write(answer) // to any reader
}

// arrives notes a write, and returns what it has to wait for.
func (g *gate) arrives(body []byte) (i int, open <-chan struct{}) {
	var o struct {
		Metadata struct{ Annotations map[string]string }
		Status   struct{ OperatorTerm uint64 }
	}
	_ = json.Unmarshal(body, &o) // what it is not states no term
	term, _ := strconv.ParseUint(o.Metadata.Annotations[termAnnotation], 10, 64)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, write{term: max(term, o.Status.OperatorTerm), arrived: time.Now()})
	return len(g.writes) - 1, g.open
}

// all are the writes so far.
func (g *gate) all() []write {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]write(nil), g.writes...)
}

// await waits for a write that is as asked for, the first from the given one
// on.
func (g *gate) await(t *testing.T, what string, from int, is func(write) bool) (found write) {
	t.Helper()
	natslab.Eventually(t, what, func(context.Context) error {
		all := g.all()
		for _, found = range all[from:] {
			if is(found) {
				return nil
			}
		}
		return errors.New("there were " + strconv.Itoa(len(all)-from) + " others")
	})
	return found
}
