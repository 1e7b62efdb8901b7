//go:build unix

package runner

import (
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// An election that ends by itself stands no more. Then leader run ends, so that
// whoever looks after it starts it again, and does not wait for ever.
func TestRunEndsWithItsElection(t *testing.T) {
	cfg := leader.ElectionConfig{
		Group: "g", InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second,
		// Ends the election's goroutine, which counts as a panic of the
		// library.
		Hooks: leader.Hooks{Transition: func(leader.Transition) { runtime.Goexit() }},
	}
	e, err := leader.NewElectionWithStore(memstore.New(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{c: &Command{}, cfg: cfg, seats: []*seat{{e: e, group: "g"}}, known: make(map[string]leader.LeaderInfo), err: io.Discard, result: make(chan int, 1), shells: make(map[int]struct{})}
	ended := make(chan error, 1)
	go func() { ended <- r.elect(t.Context(), e) }()
	select {
	case err := <-ended:
		if !errors.Is(err, leader.ErrPanicked) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits")
		_ = e.Stop()
	}
}
