package natsstore_test

import (
	"flag"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var beginnings = flag.Int("beginnings", 300, "how often TestTheCurrentStateHasEachKeyThatIsWrittenMeanwhile begins to watch")

// A key that is written while the server shows the initial state is, for an
// instant, neither at its former place nor among the keys that are left to
// show.
func TestTheCurrentStateHasEachKeyThatIsWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	byFeed(t, func(t *testing.T, create func(testing.TB, *nats.Conn, string)) {
		srv := natslab.Start(t)
		nc := srv.Connect(t)
		create(t, nc, "b")
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{"a", "b", "c", "d"}
		write := func() {
			for _, key := range keys {
				if _, err := js.Publish(t.Context(), "$KV.b."+key, []byte("v")); err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			}
		}
		write()
		s := open(t, srv.Connect(t), "b", natsstore.Options{})
		var wg sync.WaitGroup
		over := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						write()
					}
				}
			})
		}
		for round := range *beginnings {
			var mu sync.Mutex
			shown := make(map[string]bool)
			present := make(chan error, 1)
			stop, err := s.WatchPattern(natslab.Within(t), ">", func(e store.Entry) {
				mu.Lock()
				defer mu.Unlock()
				shown[e.Key] = true
			}, func(err error) { present <- err })
			if err != nil {
				t.Fatal(err)
			}
			if err := <-present; err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			if len(shown) != len(keys) {
				t.Errorf("round %d: the initial state is %v", round, shown)
			}
			mu.Unlock()
			stop()
		}
		close(over)
		wg.Wait()
	})
}
