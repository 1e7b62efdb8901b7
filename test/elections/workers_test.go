package elections_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Ten workers of one program, each a candidate: exactly one works at a time,
// each gets its turn when the one before ends, and an interrupt ends them all.
func TestTenWorkersInOneProgramWorkOneAtATime(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	shared := srv.Connect(t)
	for name, connect := range map[string]func() *nats.Conn{
		"one connection":    func() *nats.Conn { return shared },
		"a connection each": func() *nats.Conn { return srv.Connect(t) },
	} {
		t.Run(name, func(t *testing.T) { tenWorkers(t, connect) })
	}
}

func tenWorkers(t *testing.T, connect func() *nats.Conn) {
	const n = 10
	bucket := "DEMO_ELECTION" + fmt.Sprint(len(t.Name()))
	ensure(t, connect(), natsstore.BucketConfig{Bucket: bucket})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var working atomic.Int32
	turns := make(chan int, n)
	work := func(i int) func(context.Context, leader.Term) error {
		return func(ctx context.Context, _ leader.Term) error {
			if now := working.Add(1); now != 1 {
				t.Errorf("%d workers at once", now)
			}
			defer working.Add(-1)
			turns <- i
			if i%2 == 0 {
				return nil // its work is done
			}
			<-ctx.Done()
			return nil
		}
	}
	var all sync.WaitGroup
	stops := make([]context.CancelFunc, n)
	for i := range n {
		nc := connect()
		own, stop := context.WithCancel(ctx)
		stops[i] = stop
		all.Go(func() {
			defer stop()
			cfg := leader.ElectionConfig{
				Bucket: bucket, Group: "my_app", InstanceID: fmt.Sprint("worker-", i), TTL: long, HeartbeatInterval: time.Second,
				AcquireGrace: leader.GraceOff, // no test waits for that long because its bucket is new
			}
			if err := leader.Run(own, nc, cfg, work(i)); err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
		})
	}
	had := map[int]bool{}
	for len(had) < n-1 {
		select {
		case i := <-turns:
			had[i] = true
			if i%2 != 0 && len(had) < n-1 {
				stops[i]()
			}
		case <-natslab.Within(t).Done():
			t.Fatalf("%d of %d workers had their turn", len(had), n)
		}
	}
	interrupt()
	all.Wait()
}
