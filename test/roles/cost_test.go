package roles_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A role costs a process one goroutine and a few kilobytes. The test runs
// alone, since it measures the process.
func TestThousandRolesCostOneGoroutineEach(t *testing.T) {
	const n, heapEach = many, 8 << 10
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{})
	for _, id := range []string{"leader", "follower"} {
		nc := srv.Connect(t)
		goroutines, heap := usage()
		m, err := leader.NewRoleManager(nc, template(id, 10*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Stop() })
		for i := range n {
			if err := m.Add(t.Context(), leader.Role{
				Name: fmt.Sprintf("role.%04d", i), OnPromote: func(context.Context, string) {}, OnDemote: func() {},
			}); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		started := time.Since(begun)
		natslab.Eventually(t, "every role has a leader", func(context.Context) error {
			for _, r := range m.Roles() {
				if r.LeaderID != "leader" {
					return fmt.Errorf("%s: %+v", r.Name, r.ElectionStatus)
				}
			}
			return nil
		})
		settled := time.Since(begun)
		after, now := usage()
		each, heapBytes := after-goroutines, int(now-heap)
		const besides = 50 // for the connection, in the client and in the server of this process
		if each > n+besides {
			t.Errorf("%s: %d goroutines", id, each)
		}
		t.Logf("%s: %.2f goroutines and %d bytes for each role; started in %v, settled in %v",
			id, float64(each)/n, heapBytes/n, started, settled)
		// Loosely: the server of this process keeps 4 MB of what the leader
		// wrote, and the race detector may be in it.
		if heapBytes > 2*heapEach*n {
			t.Errorf("%s: %d bytes", id, heapBytes)
		}
		runtime.KeepAlive(m)
	}
}

// usage counts the goroutines, but for those that an election has for the first
// TTL only, in case that its watch tells nothing of pauses, and the heap.
func usage() (goroutines int, heap int64) {
	runtime.GC()
	runtime.GC() // what finalizers and pools released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
	for alike := range strings.SplitSeq(stacks.String(), "\n\n") {
		var n int
		if _, err := fmt.Sscanf(strings.TrimSpace(alike), "%d @", &n); err == nil && !strings.Contains(alike, "(*election).join") {
			goroutines += n
		}
	}
	return goroutines, int64(m.HeapAlloc)
}
