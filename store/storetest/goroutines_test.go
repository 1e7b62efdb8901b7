package storetest_test

import (
	"context"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// A server in the test's process may keep what serves a watch for longer than
// the client has the watch, as nats-server does with consumers.
func TestGoroutinesOfAServerAreNotTheClients(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		h := harness(nil)(t)
		served := make(chan struct{})
		go func() {
			for range served {
				go func() { <-t.Context().Done() }()
			}
		}()
		t.Cleanup(func() { close(served) })
		sound := h.Open
		h.Open = func(t testing.TB) store.Store {
			w, ok := sound(t).(unwaiting)
			if !ok {
				t.Fatal("not a wrapper")
			}
			wide := w.wide
			w.watch = func(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
				served <- struct{}{}
				return w.Store.Watch(ctx, keys, deliver)
			}
			w.wide = func(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
				served <- struct{}{}
				return wide(ctx, pattern, deliver, present)
			}
			return w
		}
		return h
	}, storetest.Caps{NoInterrupt: "the claims that count need none"})
}
