package engine

import (
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
)

// testConfig returns the settings that leader.ElectionConfig has by default.
func testConfig(change ...func(*Config)) Config {
	cfg := Config{
		Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		ConnectionTimeout: 750 * time.Millisecond, DemoteTimeout: 5 * time.Second, ClockDrift: leadership.DefaultDrift,
		MinTenure: 30 * time.Second, CheckInterval: time.Second, CheckTimeout: time.Second, MaxFailures: 3,
		Settings: machine.Settings{Retry: machine.Retry{Initial: 50 * time.Millisecond, Max: 750 * time.Millisecond, Multiplier: 2, Jitter: .1}},
		Loss:     testLoss,
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// A testLossError is the cause of the end of a term's context in these tests.
type testLossError struct {
	term   leadership.Term
	reason machine.Reason
}

func testLoss(t leadership.Term, r machine.Reason) error { return &testLossError{t, r} }

func (e *testLossError) Error() string {
	return fmt.Sprintf("term %d ended: %s", e.term.Number, e.reason)
}

func (e *testLossError) Is(target error) bool { return target == ErrNotLeader }
