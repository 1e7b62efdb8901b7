package demo

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestACutNetworkHoldsCallsAndNews(t *testing.T) {
	m := memstore.New()
	n := newNetwork(time.Second)
	r := &remote{m, n}
	heard := make(chan string, 10)
	stop, err := r.Watch(t.Context(), []string{"g"}, func(e store.Entry) { heard <- string(e.Value) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if v := <-heard; v != "" {
		t.Fatalf("%q", v)
	}
	n.cut()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.CompareAndSwap(ctx, store.Write{Key: "g"}); store.Classify(err) != store.Unknown {
		t.Errorf("a write while the network is cut: %v", err)
	}
	if _, err := r.Get(ctx, "g"); store.Classify(err) != store.Transient {
		t.Errorf("a read while the network is cut: %v", err)
	}
	if _, err := m.CompareAndSwap(t.Context(), store.Write{Key: "g", Value: []byte("another's")}); err != nil {
		t.Fatal(err)
	}
	select {
	case v := <-heard:
		t.Errorf("%q was heard of while the network is cut", v)
	case <-time.After(20 * time.Millisecond): // too short a wait finds no fault, and none that is not there
	}
	n.heal()
	if v := <-heard; v != "another's" {
		t.Errorf("%q", v)
	}
}
