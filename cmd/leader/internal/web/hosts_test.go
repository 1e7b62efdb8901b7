package web_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

// A page of evil.example.com, whose name resolves to this server's address,
// would read the answers.
func TestServerWithoutATokenAnswersToItsOwnNamesAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	srv, err := web.ListenOpen(ctx, "--http", "localhost:0", web.Hosts{AllowHost: []string{"Leader.example.com"}}, ok)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	for host, want := range map[string]int{
		"evil.example.com:9464":      http.StatusForbidden,
		"evil.localhost.example.com": http.StatusForbidden,
		"127.0.0.1.example.com":      http.StatusForbidden,
		"127.0.0.1:9464":             http.StatusNoContent,
		"10.1.2.3:8080":              http.StatusNoContent, // a pod's, of Kubernetes' probes
		"[fd00::7]:8080":             http.StatusNoContent,
		"localhost:9464":             http.StatusNoContent,
		"exporter:9464":              http.StatusNoContent, // a service of compose
		"leader.example.com:9464":    http.StatusNoContent,
		"leader.example.com.":        http.StatusNoContent,
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a request for %s is answered with %s, want %d", host, resp.Status, want)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAllowedHostWithAPortIsRefused(t *testing.T) {
	for _, name := range []string{"", "leader.example.com:80", "[::1]"} {
		if err := (web.Hosts{AllowHost: []string{name}}).CheckHosts(); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	if err := (web.Hosts{AllowHost: []string{"leader.example.com"}}).CheckHosts(); err != nil {
		t.Error(err)
	}
}
