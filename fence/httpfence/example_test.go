package httpfence_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/httpfence"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A leader sends reports to a service, which turns away earlier leaders.
func Example() {
	// The service. Its mark would be persisted, see fence.Gate.
	gate := new(fence.Gate)
	reports := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "taken") })
	service := httptest.NewServer(httpfence.Require("reports", gate.Enter)(reports))
	defer service.Close()

	// The leader, as often as it is elected.
	client := &http.Client{Transport: &httpfence.Transport{Group: "reports"}}
	send := func(ctx context.Context, _ leader.Term) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		answer, err := io.ReadAll(resp.Body)
		fmt.Print(resp.Status, ": ", string(answer))
		return err
	}
	st := memstore.New()
	var first context.Context
	for _, id := range []string{"one", "two"} {
		cfg := leader.ElectionConfig{Group: "reports", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second}
		err := leader.RunWithStore(context.Background(), st, cfg, func(ctx context.Context, term leader.Term) error {
			if first == nil {
				// A leader that will not notice that its term is over.
				first = context.WithoutCancel(ctx) //nolint:fatcontext // it is looked at below
			}
			return send(ctx, term)
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := send(first, leader.Term{}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 OK: taken
	// 200 OK: taken
	// 412 Precondition Failed: {"title":"Stale term","status":412,"detail":"Term 1 does not supersede term 3, which was here before.","term":3}
}
