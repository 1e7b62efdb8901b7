package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// Stats are what a [Proxy] has done since it was made. The numbers only grow,
// but for Open and Waiting.
type Stats struct {
	// Leader is where new connections were last carried to or would be; its ID
	// is empty while nobody is known to lead.
	Leader leader.LeaderInfo
	// Open is how many clients are connected, Waiting how many of them have not
	// been connected to a leader yet.
	Open, Waiting int
	// Accepted counts connections of clients, Carried those that reached a
	// leader.
	Accepted, Carried uint64
	// Full, NoLeader and Loop count those that were refused: Full those beyond
	// MaxConns, NoLeader those without a leader when they had waited for long
	// enough, when their client had gone or when the proxy ended, and Loop those
	// whose leader's address is the proxy's own.
	Full, NoLeader, Loop uint64
	// Cut counts connections that were cut since their leader's term had ended,
	// Drained those that outlasted Drain.
	Cut, Drained uint64
	// DialFailures counts failed tries to connect to a leader, also those that
	// Options.Wait ended.
	DialFailures uint64
	// Waited is how long connections took from being accepted to reaching a
	// leader or being refused, all together.
	Waited time.Duration
	// Sent and Received count the bytes to leaders and from them. Those of a
	// connection under way are counted with each mebibyte, of a fast one with
	// each 64 at the latest.
	Sent, Received uint64
}

// counters are the Stats under way.
type counters struct {
	open, waiting, waited                   atomic.Int64
	accepted, carried, full, noLeader, loop atomic.Uint64
	cut, drained, failures, sent, received  atomic.Uint64
}

// refuse counts a connection that was refused.
func (c *counters) refuse(err error) {
	switch {
	case errors.Is(err, errFull):
		c.full.Add(1)
	case errors.Is(err, errLoop):
		c.loop.Add(1)
	default:
		c.noLeader.Add(1)
	}
}

// Stats returns what the proxy has done so far.
func (p *Proxy) Stats() Stats {
	c := &p.count
	s := Stats{
		Open: int(c.open.Load()), Waiting: int(c.waiting.Load()), Waited: time.Duration(c.waited.Load()),
		Accepted: c.accepted.Load(), Carried: c.carried.Load(),
		Full: c.full.Load(), NoLeader: c.noLeader.Load(), Loop: c.loop.Load(),
		Cut: c.cut.Load(), Drained: c.drained.Load(), DialFailures: c.failures.Load(),
		Sent: c.sent.Load(), Received: c.received.Load(),
	}
	s.Leader = p.leader()
	return s
}

// leader is who leads by what any Serve knows: one whose observer is behind may
// know less.
func (p *Proxy) leader() (latest leader.LeaderInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.routes {
		if t, info, _ := r.current(); t != nil && (latest.ID == "" || info.Term > latest.Term) {
			latest = info
		}
	}
	return latest
}
