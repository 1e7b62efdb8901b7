package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A route is where connections go: to nobody, or to the leader of one term.
type route struct {
	*Proxy

	mu      sync.Mutex
	now     *target // nil if nobody is seen to lead
	told    bool    // the current state, which came first
	trouble string  // the last failure to observe that was logged, until something is heard
	closed  bool
	changed chan struct{}           // closed with each change of now
	deposed map[*target]*time.Timer // those whose connections go on for a while
}

// A target is the leader of one term, with the connections to it. The route's
// lock guards it.
type target struct {
	leader.LeaderInfo
	// confirmed: it was seen to do something, so that its lease counts from
	// then. A record that was found may be an old one.
	confirmed bool
	failed    bool            // it could not be connected to, which was logged
	over      context.Context // done when its term is seen to have ended
	depose    context.CancelFunc
	links     map[*link]struct{}
}

func newRoute(p *Proxy) *route {
	r := &route{Proxy: p, changed: make(chan struct{}), deposed: map[*target]*time.Timer{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.routes == nil {
		p.routes = map[*route]struct{}{}
	}
	p.routes[r] = struct{}{}
	return r
}

// observer is by what the route hears of leaders.
func (r *route) observer() leader.Observer {
	return leader.Observer{
		Leader:  r.lead,
		Renewed: r.renewed,
		Failed:  r.deaf,
	}
}

// deaf records why nothing is heard. The observer tries again each second, and
// the reason is logged when it changes.
func (r *route) deaf(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err.Error() != r.trouble {
		r.trouble = err.Error()
		r.opts.Logger.Warn("cannot observe the group, and tries again", "error", err)
	}
}

// lead takes in who leads now. The former leader's connections end, at once or
// after the grace.
func (r *route) lead(info leader.LeaderInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := !r.told
	r.told, r.trouble = true, ""
	old := r.now
	if old != nil && old.ID == info.ID && old.Term == info.Term {
		old.LeaderInfo = info // it may have moved
		r.wake()
		return
	}
	r.now = nil
	if info.ID != "" {
		over, depose := context.WithCancel(context.Background())
		r.now = &target{LeaderInfo: info, confirmed: !found, over: over, depose: depose, links: map[*link]struct{}{}}
	}
	r.wake()
	r.opts.Logger.Info("leader", "id", info.ID, "term", info.Term, "address", info.Address, "reason", info.Reason)
	if old == nil {
		return
	}
	old.depose()
	if r.opts.Grace > 0 && len(old.links) > 0 {
		r.deposed[old] = time.AfterFunc(r.opts.Grace, func() { r.end(old) })
		return
	}
	r.cut(old, &r.count.cut)
}

// renewed takes in a renewal.
func (r *route) renewed(info leader.LeaderInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = ""
	if t := r.now; t != nil && t.ID == info.ID && t.Term == info.Term {
		wait := !t.confirmed || time.Now().After(t.Until)
		t.LeaderInfo, t.confirmed = info, true
		if wait {
			r.wake()
		}
	}
}

// wake wakes those who wait for a change. The caller holds the lock.
func (r *route) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// usable reports whether somebody is known to lead. It compares the end of the
// lease, too, because the observer may report it late.
func (r *route) usable() bool {
	return !r.closed && r.now != nil && r.now.confirmed && time.Now().Before(r.now.Until)
}

// current returns who leads, nil if nobody is known to, and what is closed when
// that changes.
func (r *route) current() (t *target, info leader.LeaderInfo, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.usable() {
		return nil, leader.LeaderInfo{}, r.changed
	}
	return r.now, r.now.LeaderInfo, r.changed
}

// join adds a connection to a leader's. It reports false if that instance leads
// no more: it may have been deposed while it was connected to.
func (r *route) join(l *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.usable() || r.now != l.target {
		return false
	}
	l.target.links[l] = struct{}{}
	return true
}

// leave removes a connection that has ended.
func (r *route) leave(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(l.target.links, l)
}

// failure reports whether this is the first failure to connect to a leader.
func (r *route) failure(t *target) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !t.failed
	t.failed = true
	return first
}

// end cuts the connections to a former leader, whose grace is over.
func (r *route) end(t *target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.deposed, t)
	r.cut(t, &r.count.cut)
}

// close cuts every connection, and lets none begin.
func (r *route) close() {
	r.Proxy.mu.Lock()
	delete(r.routes, r)
	r.Proxy.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for t, grace := range r.deposed {
		grace.Stop()
		r.cut(t, &r.count.cut)
	}
	if r.now != nil {
		r.now.depose()
		r.cut(r.now, &r.count.drained)
	}
	r.wake()
}

// cut cuts the connections of a target. The caller holds the lock, so that none
// joins meanwhile.
func (r *route) cut(t *target, counter *atomic.Uint64) {
	if n := len(t.links); n > 0 {
		counter.Add(uint64(n))
		r.opts.Logger.Info("connections cut", "id", t.ID, "term", t.Term, "count", n)
	}
	for l := range t.links {
		l.cut()
	}
	clear(t.links)
}
