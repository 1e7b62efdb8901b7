package guard

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
)

func lease(ttl, heartbeat time.Duration) leader.ElectionConfig {
	return leader.ElectionConfig{TTL: ttl, HeartbeatInterval: heartbeat}
}

func TestTheLastKillComesBeforeTheWindowCloses(t *testing.T) {
	for _, ttl := range []time.Duration{leader.MinTTL, time.Second, 3 * time.Second, 20 * time.Second, leader.MaxTTL} {
		cfg := lease(ttl, ttl/5)
		l, err := LimitsOf(cfg, 0)
		if err != nil {
			// The shortest leases have no room at all.
			if ttl > 10*leader.MinTTL {
				t.Errorf("%v: %v", ttl, err)
			}
			continue
		}
		sent := int64(time.Hour)
		until := sent + int64(Trust(cfg))
		stop, kill := l.stopAt(until), l.killAt(until)
		if kill >= until || stop >= kill {
			t.Errorf("%v: SIGTERM at %d, SIGKILL at %d, end of the window at %d", ttl, stop, kill, until)
		}
		if second := sent + 2*int64(cfg.HeartbeatInterval); stop < second {
			t.Errorf("%v: SIGTERM at %d, before the second renewal at %d", ttl, stop, second)
		}
	}
}

func TestAStopTimeoutHasToFit(t *testing.T) {
	cfg := lease(3*time.Second, time.Second) // 2.7 s − 2 × 1 s − 150 ms
	const room = 550 * time.Millisecond
	if l, err := LimitsOf(cfg, 0); err != nil || l.Stop != room/2 {
		t.Errorf("by default %v, %v", l, err)
	}
	if _, err := LimitsOf(cfg, room); err != nil {
		t.Error(err)
	}
	if _, err := LimitsOf(cfg, room+1); err == nil || !strings.Contains(err.Error(), "at most 550ms") {
		t.Errorf("error %v", err)
	}
	if l, err := LimitsOf(lease(time.Hour, time.Second), 0); err != nil || l.Stop != defaultStop || l.Margin != maxMargin {
		t.Errorf("of a long lease: %v, %v", l, err)
	}
}
