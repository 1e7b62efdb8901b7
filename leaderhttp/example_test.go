package leaderhttp_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Two instances of a service, and a client that always talks to the one that
// leads.
func Example() {
	st := memstore.New()
	one, stopOne, err := startInstance(st, "one")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopOne()
	_, stopTwo, err := startInstance(st, "two")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopTwo()

	t := leaderhttp.New(func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
		return leader.ObserveWithStore(ctx, st, "reports")
	}, leaderhttp.Options{})
	defer t.Close()
	client := &http.Client{Transport: t}
	for range 2 {
		resp, err := client.Get("http://reports/today")
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Println(string(answer))
		_ = one.Stop() // the second takes over
	}
	// Output:
	// served by one
	// served by two
}

// startInstance starts a web server that serves where it leads.
func startInstance(st store.Store, id string) (e leader.Election, stop func(), err error) {
	var service http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { service.ServeHTTP(w, r) }))
	e, err = leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "reports", InstanceID: id, Address: server.URL, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second, DeleteOnStop: true,
	})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	service = probe.Redirect(e, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "served by %s", id)
	}), probe.RedirectOptions{})
	stop = func() {
		_ = e.Stop()
		server.Close()
	}
	if err := e.Start(context.Background()); err != nil {
		stop()
		return nil, nil, err
	}
	for info := range e.Observe(context.Background()) {
		if info.ID != "" {
			break
		}
	}
	return e, stop, nil
}
