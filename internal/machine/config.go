package machine

import "time"

// A Machine is the protocol with one candidate's settings. It is immutable and
// may be shared. The caller has validated the settings.
type Machine struct { //nolint:recvcheck // Template is also asked of a machine that nobody keeps
	// ID is the candidate's InstanceID.
	ID string
	// TTL is the length of the leases that this candidate writes.
	TTL time.Duration
	// Heartbeat is the time from one renewal to the next, send to send.
	Heartbeat time.Duration
	// Grid makes a renewal due when the monotonic clock shows a multiple of it,
	// before Heartbeat has passed. Grid is short compared with Heartbeat.
	// Candidates with the same grid then renew together. 0 disables the grid.
	Grid time.Duration
	// MaxTTL bounds the lease length that is believed of anybody's record.
	MaxTTL time.Duration
	// Drift is how far the rate of a clock may be off, as a fraction.
	Drift float64
	// CoolDown: promote only Wait(TTL) after the acknowledgement of a claim.
	CoolDown bool
	// Expires: the store may drop a record, but never brings an older one back,
	// nor gives a revision twice. There a claim that succeeds a settled vacancy
	// needs no cool-down: see Record.Settled.
	Expires bool
	// Ages: the store reports its age, which shows whether it was made again
	// while a claim that expects nothing was under way: see Grant.Void.
	Ages bool
	// DrainBudget is how long the release waits for the work to stop.
	DrainBudget time.Duration
	// HeadStart is how long a named successor is left alone with a vacancy.
	HeadStart time.Duration
	// Priority is written into the records.
	Priority int
	// Yield is how long the candidate waits at a vacancy for each of those that
	// it lets go first.
	Yield time.Duration
	Settings
}

// Settings are what a program sets and the core alone obeys. The engine passes
// them on as a whole, so that a new one needs no line there. The caller bounds
// the times: an instant so much later must not overflow.
type Settings struct {
	// ForeignTTL is the lease length that is believed of what no candidate
	// wrote: garbage, and records that state none. A shorter one than TTL
	// counts as TTL.
	ForeignTTL time.Duration
	// DisconnectGrace is how long a leader keeps its term without a connection;
	// 0 leaves that to the trust window alone.
	DisconnectGrace time.Duration
	// Retry paces the repetition of writes that failed.
	Retry Retry
	// Splay bounds a random delay before the first claim.
	Splay time.Duration
	// Backoff slows down the campaigns of those who did not lead last: a delay
	// of Backoff, doubled with each term of others up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
}

// Retry paces repetitions: Initial × Multiplier^n up to Max, each varied by
// ±Jitter.
type Retry struct {
	// MaxAttempts bounds the attempts of one write in a row; 0 means no bound.
	MaxAttempts  int
	Initial, Max time.Duration
	Multiplier   float64
	Jitter       float64
}

// after returns the backoff after the nth failed attempt (from 1) in a row.
func (r Retry) after(n int, rand uint64) time.Duration {
	d := float64(r.Initial)
	for i := 1; i < n && d < float64(r.Max); i++ {
		d *= r.Multiplier
	}
	d = min(d, float64(r.Max))
	d += d * r.Jitter * (2*unit(rand) - 1)
	return time.Duration(d)
}

// unit maps a random number to [0, 1).
func unit(rand uint64) float64 { return float64(rand>>11) / (1 << 53) }

func (m *Machine) trust(ttl time.Duration) time.Duration { return Trust(ttl, m.Drift) }

func (m *Machine) wait(ttl time.Duration) time.Duration { return Wait(ttl, m.Drift) }

// believed is the lease length that a candidate's record is credited with.
// Believing less than an honest leader's TTL would be unsafe, and believing any
// number would let one hostile record block the group: hence one bound, the
// same for everyone.
func (m *Machine) believed(ttl time.Duration) time.Duration {
	if ttl > m.MaxTTL {
		return m.MaxTTL
	}
	return ttl
}

// Template returns a record as large as this candidate ever writes one.
func (m Machine) Template() Record {
	const uuid = "00000000-0000-0000-0000-000000000000"
	return Record{ID: m.ID, Token: uuid, TTL: m.TTL, Term: 1 << 53, Renewal: 1 << 53, Nonce: 1 << 53, Priority: m.Priority}
}
