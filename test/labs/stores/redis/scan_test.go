package redis_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// A cursor of SCAN means nothing to a server that was restarted: what it had
// still to show would count as vanished.
func TestPresentStateIsCompleteAcrossARestart(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	const keys = 3000
	writer := over(t, dial(t, srv.Addr()), redisstore.Options{})
	for i := range keys {
		put(t, writer, fmt.Sprint("many.", i), 0, "v")
	}
	restarts := &restarter{srv: srv}
	rdb := dial(t, srv.Addr())
	rdb.AddHook(restarts)
	st := over(t, rdb, redisstore.Options{})
	known := map[string]bool{}
	present := make(chan struct{}, 100)
	stop, err := st.WatchPattern(trial.Within(t), "many.*", func(e store.Entry) {
		if e.Revision == 0 {
			t.Errorf("key %q is shown as vanished", e.Key)
		}
		known[e.Key] = true
	}, func(error) { present <- struct{}{} })
	for err != nil { // the first look met the restart
		if store.Classify(err) != store.Transient {
			t.Fatal(err)
		}
		stop, err = st.WatchPattern(trial.Within(t), "many.*", func(e store.Entry) { known[e.Key] = true }, func(error) { present <- struct{}{} })
	}
	select {
	case <-present:
	case <-trial.Within(t).Done():
		t.Fatal("the initial state is never complete")
	}
	stop()
	if len(known) != keys {
		t.Errorf("the initial state has %d of %d keys", len(known), keys)
	}
	if n := restarts.scans.Load(); n < 2 {
		t.Errorf("%d commands of SCAN: the test shows nothing", n)
	}
}

// A restarter restarts the server before the second SCAN.
type restarter struct {
	srv   *databases.Redis
	scans atomic.Int32
}

func (r *restarter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *restarter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "scan" {
			if r.scans.Add(1) == 2 {
				r.srv.Kill()
				r.srv.Run()
			}
		}
		return next(ctx, cmd)
	}
}

func (r *restarter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
