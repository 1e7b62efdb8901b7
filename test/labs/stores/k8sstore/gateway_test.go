package k8sstore_test

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
)

// A gateway sits between clients and the API server, request by request, like a
// load balancer or a service mesh that ends TLS. It has the administrator's
// certificate, so that every client of it acts as the administrator.
type gateway struct {
	server *httptest.Server
	target string
	client *http.Client

	mu       sync.Mutex
	next     func(w http.ResponseWriter, forward func() answer)
	requests map[string]int // by method
	blind    bool           // it answers no GET
}

func newGateway(tb testing.TB, srv *kubelab.Server) *gateway {
	tb.Helper()
	client, err := rest.HTTPClientFor(srv.Admin())
	if err != nil {
		tb.Fatal(err)
	}
	g := &gateway{target: "https://" + srv.Addr, client: client, requests: make(map[string]int)}
	g.server = httptest.NewUnstartedServer(g)
	g.server.EnableHTTP2 = true
	g.server.StartTLS()
	tb.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
		client.CloseIdleConnections()
	})
	return g
}

func (g *gateway) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
	return &rest.Config{Host: g.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// instead has the next request that writes answered so. forward sends it on,
// once for each call.
func (g *gateway) instead(f func(w http.ResponseWriter, forward func() answer)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = f
}

// blinded has no GET answered from now on.
func (g *gateway) blinded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blind = true
}

// count is how many requests of the method have come.
func (g *gateway) count(method string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests[method]
}

// ServeHTTP implements [http.Handler].
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	forward := func() answer { return g.forward(r, body) }
	g.mu.Lock()
	g.requests[r.Method]++
	blind := g.blind && r.Method == http.MethodGet
	next := g.next
	if r.Method == http.MethodPut || r.Method == http.MethodPost {
		g.next = nil
	} else {
		next = nil
	}
	g.mu.Unlock()
	if next != nil {
		next(w, forward)
		return
	}
	if blind {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	forward().write(w)
}

// An answer is what the API server has answered.
type answer struct {
	status      int
	contentType string
	body        []byte
}

func (g *gateway) forward(r *http.Request, body []byte) answer {
	none := answer{status: http.StatusBadGateway}
	request, err := http.NewRequestWithContext(r.Context(), r.Method, g.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return none
	}
	request.Header = r.Header.Clone()
	got, err := g.client.Do(request)
	if err != nil {
		return none
	}
	defer got.Body.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(got.Body)
	if err != nil {
		return none
	}
	return answer{got.StatusCode, got.Header.Get("Content-Type"), b}
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.contentType)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}
