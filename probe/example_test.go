package probe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func ExampleHandler() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "worker-1", Address: "http://10.0.0.1:8080", TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer e.Stop() //nolint:errcheck // the process ends
	for info := range e.Observe(ctx) {
		if info.ID != "" {
			break
		}
	}

	mux := http.NewServeMux()
	mux.Handle("/probes/", probe.Handler(e, probe.Options{}))
	for _, path := range []string{"/probes/livez", "/probes/readyz", "/probes/leader"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Printf("%s: %d %q\n", path, w.Code, w.Header().Get(probe.AddressHeader))
	}
	// Output:
	// /probes/livez: 200 ""
	// /probes/readyz: 200 ""
	// /probes/leader: 200 "http://10.0.0.1:8080"
}
