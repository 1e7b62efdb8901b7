package leadergrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/seed-ff2cb582/leader"
)

// A follower keeps the channels to one group at its leader.
type follower struct {
	group string
	opts  *BuilderOptions
	end   context.CancelFunc
	done  chan struct{} // closed when the observer has ended

	// mu is held while channels are updated, so that each is updated in order.
	mu       sync.Mutex
	channels map[*channel]struct{}
	seen     place         // the observer's last report
	now      place         // seen, or the place that a refusing server named
	changed  chan struct{} // closed when now changes
}

// A place is where a leader is, or why there is none.
type place struct {
	known   bool // anything was seen at all
	term    uint64
	address string
	server  string // the name in the certificate, "" for the channel's own
	config  string
	why     string // if there is no address
	// guessed: a server named it, and the observer has not reported it so far.
	guessed bool
}

// follow begins to observe a group.
func follow(b *Builder, group string) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{group: group, opts: &b.opts, end: cancel, done: make(chan struct{}), channels: map[*channel]struct{}{}, changed: make(chan struct{})}
	go func() {
		defer close(f.done)
		for info, err := range b.observe(ctx, group) {
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				f.failed(err)
			default:
				f.observed(info)
			}
		}
	}()
	return f
}

// observed takes in who leads by the record.
func (f *follower) observed(info leader.LeaderInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info.Reason == leader.ReasonExpired && f.now.address != "" {
		// Nothing has arrived for a lease. Perhaps this client is cut off: if
		// the leader is gone, its connection will show it, and its successor's
		// record.
		f.opts.Logger.Warn("the leader is silent", "group", f.group, "term", info.Term)
		return
	}
	f.seen = f.placeOf(info)
	if info.ID == "" && f.now.guessed && info.Term < f.now.term {
		return // we hear only now of what the server knew that named the leader
	}
	f.move(f.seen)
}

// placeOf is the leader's place according to info.
func (f *follower) placeOf(info leader.LeaderInfo) place {
	p := place{known: true, term: info.Term}
	if info.ID == "" {
		p.why = info.String()
		return p
	}
	p.address, p.config = f.opts.Address(info), f.opts.ServiceConfig(info)
	if f.opts.ServerName != nil {
		p.server = f.opts.ServerName(info)
	}
	switch {
	case p.address == "":
		p.why = info.String() + ", and states no address"
	case hostless(p.address):
		p.why = fmt.Sprintf("%v, and its address %q names no host", info, p.address)
		p.address = ""
	}
	return p
}

// hostless reports whether an address names no host, as the address of a server
// that listens at every address of its machine. gRPC would connect to the
// machine of the client. leaderhttp and proxy have the same rule from an
// internal package, which another module does not import.
func hostless(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false // a path of a socket, or what gRPC refuses
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().WithZone("").IsUnspecified()
}

// failed takes in why nothing can be observed. A leader that is known stays.
func (f *follower) failed(err error) {
	f.opts.Logger.Warn("the group cannot be observed", "group", f.group, "error", err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.seen.known {
		f.seen.why = err.Error()
	}
	if !f.now.known {
		f.now.why = err.Error()
		for c := range f.channels {
			f.tell(c)
		}
	}
}

// hint handles the leader that a refusing server named. It counts until
// something is observed, or it proves wrong (expire): a server may learn of a
// leader before this client does, or the client may be cut off from the store.
func (f *follower) hint(r Refusal) {
	if r.ID == "" || r.Group != f.group {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Term <= f.now.term {
		return
	}
	p := f.placeOf(leader.LeaderInfo{Group: r.Group, ID: r.ID, Term: r.Term, Address: r.Address})
	p.guessed, p.config = true, f.now.config
	if p.address != "" {
		f.move(p)
	}
}

// expire goes back to the observer's report from a place that a server named,
// if calls go there now: it cannot be reached, or does not serve. The server
// may have been wrong, and the observer yields changes alone.
func (f *follower) expire(p place) {
	if !p.guessed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == p {
		f.move(f.seen)
	}
}

// move changes the place. The mutex is held.
func (f *follower) move(p place) {
	if p == f.now {
		return
	}
	f.opts.Logger.Info("calls go to another place", "group", f.group, "term", p.term, "address", p.address, "guessed", p.guessed)
	f.now = p
	for c := range f.channels {
		f.tell(c)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// tell passes the leader's place to a channel. The mutex is held.
func (f *follower) tell(c *channel) {
	p := &f.now
	if p.address != "" || c.placed {
		// Connections to other addresses are closed when their calls are done.
		// The error would only repeat that there is no address.
		_ = c.cc.UpdateState(f.stateOf(c, p))
		c.placed = p.address != ""
	}
	if p.why != "" {
		c.cc.ReportError(errors.New(p.why))
	}
}

func (f *follower) stateOf(c *channel, p *place) (s resolver.State) {
	if p.address != "" {
		s.Endpoints = []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: p.address, ServerName: p.server}}}}
	}
	if p.config == "" {
		return s // the channel keeps the one that it has
	}
	if parsed := c.cc.ParseServiceConfig(p.config); parsed != nil && parsed.Err != nil {
		f.opts.Logger.Warn("the leader's parameters are not a service config", "group", f.group, "error", parsed.Err)
	} else {
		s.ServiceConfig = parsed
	}
	return s
}

// join adds a channel.
func (f *follower) join(c *channel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.channels[c] = struct{}{}
	f.tell(c)
}

// part takes a channel away, and returns how many are left.
func (f *follower) part(c *channel) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.channels, c)
	return len(f.channels)
}

// present returns the place, and what is closed when it changes. A follower
// that is nil knows nothing and never changes.
func (f *follower) present() (place, <-chan struct{}) {
	if f == nil {
		return place{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.changed
}
