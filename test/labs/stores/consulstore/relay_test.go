package consulstore_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A relay sits between clients and an agent, request by request. It may replace
// the agent's answer after the request has had its effect there, as a gateway
// does, or before.
type relay struct {
	agent  string
	addr   string
	ca     string // the file with its certificate, of one by TLS
	client *http.Client

	mu      sync.Mutex
	instead *answer
	counts  map[string]int
	present map[string]int // requests of the kind that are not answered yet
	peaks   map[string]int // of present
}

// An answer is what a request for a transaction is answered with.
type answer struct {
	status  int // 0: the connection is closed
	body    string
	refused bool // the request does not reach the agent
}

func newRelay(tb testing.TB, agent string) *relay {
	tb.Helper()
	r, _ := startRelay(tb, agent, (*httptest.Server).Start)
	return r
}

// newRelayTLS returns a relay that is reached by TLS.
func newRelayTLS(tb testing.TB, agent string) *relay {
	tb.Helper()
	r, srv := startRelay(tb, agent, (*httptest.Server).StartTLS)
	r.ca = filepath.Join(tb.TempDir(), "ca.pem")
	if err := os.WriteFile(r.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		tb.Fatal(err)
	}
	return r
}

func startRelay(tb testing.TB, agent string, start func(*httptest.Server)) (*relay, *httptest.Server) {
	tb.Helper()
	// An agent cuts off who opens more than 200 connections.
	transport := &http.Transport{MaxConnsPerHost: 150, MaxIdleConnsPerHost: 150}
	r := &relay{
		agent: agent, client: &http.Client{Transport: transport},
		counts: make(map[string]int), present: make(map[string]int), peaks: make(map[string]int),
	}
	srv := httptest.NewUnstartedServer(r)
	// It would log each client that does not trust it, or gives up.
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	start(srv)
	r.addr = srv.Listener.Addr().String()
	tb.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		transport.CloseIdleConnections()
	})
	return r, srv
}

// next has the next transaction answered so.
func (r *relay) next(a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instead = &a
}

// served is how many requests of the kind ("write", "blocking", "read") came.
func (r *relay) served(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[kind]
}

// answered notes that a request of the kind is answered.
func (r *relay) answered(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.present[kind]--
}

// most is how many requests of the kind were under way at a time.
func (r *relay) most(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peaks[kind]
}

func kindOf(request *http.Request, body []byte) string {
	switch {
	case request.URL.Path == "/v1/txn" && bytes.Contains(body, []byte(`"cas"`)):
		return "write"
	case request.URL.Query().Has("index"):
		return "blocking"
	default:
		return "read"
	}
}

func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	kind := kindOf(request, body)
	r.mu.Lock()
	r.counts[kind]++
	r.present[kind]++
	r.peaks[kind] = max(r.peaks[kind], r.present[kind])
	defer r.answered(kind)
	var other *answer
	if kind == "write" {
		other, r.instead = r.instead, nil
	}
	r.mu.Unlock()
	if other == nil || !other.refused {
		// A started request goes on, even if its client gives up.
		ctx := context.WithoutCancel(request.Context())
		if kind == "blocking" {
			ctx = request.Context()
		}
		r.forward(ctx, w, request, body, other != nil)
	}
	if other == nil {
		return
	}
	if other.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(other.status)
	_, _ = io.WriteString(w, other.body) // the client may be gone
}

// forward asks the agent, and passes on its answer unless another takes its
// place.
func (r *relay) forward(ctx context.Context, w http.ResponseWriter, request *http.Request, body []byte, silently bool) {
	url := *request.URL
	url.Scheme, url.Host = "http", r.agent
	again, err := http.NewRequestWithContext(ctx, request.Method, url.String(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	again.Header = request.Header.Clone()
	response, err := r.client.Do(again)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if silently {
		_, _ = io.Copy(io.Discard, response.Body)
		return
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // the client may be gone
}
