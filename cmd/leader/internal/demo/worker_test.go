package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/store"
)

// A worker may be started while the demo has killed two members.
func TestWorkerWaitsForItsStore(t *testing.T) {
	k := kit()
	ms, err := serveMembers(k)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, m := range ms {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	ms[0].Stop()
	ms[1].Stop()
	failed := make(chan struct{}, 1)
	driver := k.Drivers[1] // of quorums
	open := driver.Open
	driver.Open = func(ctx context.Context, u *url.URL) (store.Opened, error) {
		st, err := open(ctx, u)
		if err != nil {
			select {
			case failed <- struct{}{}:
			default:
			}
		}
		return st, err
	}
	k.Drivers[1] = driver

	in, orders := io.Pipe()
	reports, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- errors.Join((WorkerCommand{}).Run(t.Context(), app.Streams{In: in, Out: out, Err: io.Discard}, k), out.Close())
	}()
	enc := json.NewEncoder(orders)
	s := spec{
		ID: "w1", Store: ms.url("demo", "?create=true"), Group: "demo", TTL: 6 * time.Second, Heartbeat: time.Second, Fresh: true,
	}
	if err := enc.Encode(s); err != nil {
		t.Fatal(err)
	}
	<-failed
	if err := errors.Join(ms[0].Start(), ms[1].Start()); err != nil {
		t.Fatal(err)
	}
	led := false
	readReports(reports, func(r report) {
		if r.To == leader.StateLeader && !led {
			led = true
			if err := enc.Encode(orderStop); err != nil {
				t.Error(err)
			}
		}
	})
	if err := <-ended; err != nil || !led {
		t.Errorf("it led: %t; %v", led, err)
	}
	_ = orders.Close()
}

func TestWorkerThatWaitsForItsStoreCanBeStopped(t *testing.T) {
	in, orders := io.Pipe()
	k := kit()
	asked := make(chan struct{}, 1000)
	k.Drivers = []store.Driver{{Schemes: []string{"away"}, Open: func(context.Context, *url.URL) (store.Opened, error) {
		asked <- struct{}{}
		return nil, store.ErrTransient
	}}}
	ended := make(chan error, 1)
	go func() {
		ended <- (WorkerCommand{}).Run(t.Context(), app.Streams{In: in, Out: io.Discard, Err: io.Discard}, k)
	}()
	enc := json.NewEncoder(orders)
	if err := enc.Encode(spec{ID: "w1", Store: "away://x", Group: "demo", TTL: time.Second, Heartbeat: time.Second / 4}); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := enc.Encode(orderStop); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = orders.Close()
}
