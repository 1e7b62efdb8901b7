// Package candidate is a process of the fire lab that takes part in an
// election, as one candidate or as hundreds. It samples what it believes every
// millisecond, writes to a guarded resource while it leads and for a while
// after, and goes on with that whatever happens to it.
package candidate

import (
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// A Spec is what a process is to do. It comes as the first line of its standard
// input; the orders follow, a JSON string each. The process ends with its
// input, at once and without a release.
type Spec struct {
	Name string // of the process
	IDs  []string
	URLs []string // of the servers, each behind a proxy
	// Others are the URLs of further servers. If there are some, the servers of
	// URLs and each of these are members of a quorum.
	Others   []string
	User     string
	Password string

	Bucket   string
	Group    string
	Settings schedule.Settings
	CoolDown bool
	// ClockRate is the rate of the process's clocks, in thousandths of the
	// machine's, as given to package skew. 0 means the machine's clock.
	ClockRate int
	// DemoteTimeout is how long the release waits for the work.
	DemoteTimeout time.Duration

	// Ledger is the URL of the guarded resource that speaks HTTP. Guarded is
	// the URL of the server with the guarded bucket.
	Ledger  string
	Guarded string

	Samples string // file
	Events  string // file
}

// The guarded bucket, and the group that guards it.
const (
	GuardedBucket = "ledger"
	GuardedGroup  = "fire"
	// RefusedSubject is where candidates publish, on the guarded server, that a
	// write was refused as stale.
	RefusedSubject = "refused"
)

// HeaderProcess names the process that sent a request to the ledger.
const HeaderProcess = "Chaos-Process"

// An Order is a command from the lab to a process.
type Order string

// The orders.
const (
	Resign Order = "resign"
	Sicken Order = "sicken" // have the health check fail
	Heal   Order = "heal"
	Stop   Order = "stop"   // release, check that nothing is left, and exit
	Vitals Order = "vitals" // collect garbage, and report resource use
)
