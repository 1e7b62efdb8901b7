package etcdstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
)

// gRPC refuses answers of more than 4 MiB by default.
func TestAnswersMayBeLarge(t *testing.T) {
	t.Parallel()
	s := open(t, etcdlab.Start(t, 1).Client(t), etcdstore.Options{Timeout: time.Hour})
	for _, c := range []struct {
		name            string
		registers, size int
		watch           func(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error)
	}{
		{"keys", 5, etcdstore.MaxValue, s.Watch},
		{"pattern", 260, store.MaxValue, func(ctx context.Context, _ []string, deliver func(store.Entry)) (stop func(), err error) {
			return s.WatchPattern(ctx, "pattern.*", deliver, func(error) {})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			keys, missing := make([]string, c.registers), make(map[string]struct{})
			for i := range keys {
				keys[i] = fmt.Sprintf("%s.%d", c.name, i)
				missing[keys[i]] = struct{}{}
				trial.Must(t, s, store.Write{Key: keys[i], Value: make([]byte, c.size)})
			}
			ctx, complete := trial.Within(t), make(chan struct{})
			stop, err := c.watch(ctx, keys, func(e store.Entry) {
				if _, is := missing[e.Key]; !is || len(e.Value) != c.size {
					return
				}
				delete(missing, e.Key)
				if len(missing) == 0 {
					close(complete)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			select {
			case <-complete:
			case <-ctx.Done():
				t.Fatal("not all was delivered")
			}
		})
	}
}
