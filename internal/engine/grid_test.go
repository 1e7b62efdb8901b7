package engine

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestAGridIsShortAndDividesTheHeartbeat(t *testing.T) {
	for heartbeat, want := range map[time.Duration]time.Duration{
		time.Hour:             3600 * time.Second / 65536,
		5 * time.Second:       5 * time.Second / 128,
		time.Second:           31250 * time.Microsecond,
		10 * time.Millisecond: 312500 * time.Nanosecond,
		1:                     0,
	} {
		if g := grid(heartbeat); g != want || g > maxGrid {
			t.Errorf("the grid of a heartbeat of %v is %v, not %v", heartbeat, g, want)
		}
	}
}

// Clocks that are made at any time show a multiple of a grid at one instant.
// This process may be held up while it makes one clock, which then differs.
func TestClocksOfAProcessAgreeOnTheGrid(t *testing.T) {
	const clocks, heartbeat = 21, 100 * time.Millisecond
	var all [clocks]clock
	for i := range all {
		for began := time.Now(); time.Since(began) < 3*time.Millisecond; {
		}
		all[i] = newClock(heartbeat)
	}
	if all[0].origin.Equal(all[1].origin) {
		t.Fatal("the clocks have one origin")
	}
	agree := 0
	for i := range all {
		apart := all[i].origin.Sub(all[0].origin) % heartbeat
		if apart < 0 {
			apart += heartbeat
		}
		if min(apart, heartbeat-apart) < time.Millisecond {
			agree++
		}
	}
	if agree < clocks/2 { // by chance it would be one of 50
		t.Errorf("%d of %d clocks agree with the first", agree, clocks)
	}
}

// A process that leads many groups wakes for several at once.
func TestElectionsThatBeginOneAfterTheOtherRenewTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const elections = 100
		var mu sync.Mutex
		instants, renewals := map[time.Time]int{}, 0
		all := make([]*Candidate, elections)
		for i := range all {
			cfg := testConfig()
			cfg.Hooks.Call = func(c Call) {
				mu.Lock()
				defer mu.Unlock()
				if c.Kind == "renew" {
					instants[time.Now()]++
					renewals++
				}
			}
			all[i] = New(memstore.New(), cfg)
			if err := all[i].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(cfg.HeartbeatInterval / elections) // virtual
		}
		time.Sleep(3 * testConfig().HeartbeatInterval)
		for _, c := range all {
			if err := c.Stop(t.Context(), StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
				t.Error(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		// Four heartbeats have passed, and the last lay between two instants.
		if renewals < 3*elections || len(instants) > 5*32 {
			t.Errorf("%d renewals at %d instants, of at most 32 in a heartbeat", renewals, len(instants))
		}
	})
}
