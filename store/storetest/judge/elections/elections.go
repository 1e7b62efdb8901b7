package elections

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A Harness is a store's registers, which no other test uses, and the means to
// act on them. Each election of the suite has a separate group.
type Harness struct {
	// Open returns another client of the registers, with a separate connection
	// where there are connections. It closes the client with t.Cleanup.
	Open func(t testing.TB) store.Store
	// Delete deletes a key as the store's ordinary tools do. Nil leaves out
	// what needs it.
	Delete func(key string) error
	// TTL is the short lease. The default is 600 ms; a store whose calls take
	// long needs more.
	TTL time.Duration
	// CoolsDown is set if every promotion waits for a lease, since the store
	// may forget: all leases are short then.
	CoolsDown bool
}

// long is the lease with which nothing expires while a test waits.
const long = 2 * time.Minute

func (h Harness) short() time.Duration {
	if h.TTL > 0 {
		return h.TTL
	}
	return 600 * time.Millisecond
}

// lease is the long lease, where a test may have one.
func (h Harness) lease() time.Duration {
	if h.CoolsDown {
		return h.short()
	}
	return long
}

// Run judges elections over the store as subtests of t, which run at the
// same time.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*group)
	}{
		{"FirstCandidateLeadsAndTheOthersFollow", first},
		{"ReleaseHandsOver", release},
		{"LeadershipGoesToAndFro", toAndFro},
		{"SilentLeaderIsSucceededAfterItsLease", silent},
		{"HigherPriorityTakesOver", priority},
		{"PausedGroupHasNoLeader", pause},
		{"StepDownAndTransferAreObeyed", steer},
		{"TermsFenceOffAStaleLeader", fenced},
		{"ObserversSeeWhoLeads", observed},
		{"DeletedRecordEndsTheTerm", deleted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newGroup(t, h, c.name))
		})
	}
}
