package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A registry holds the candidates. mu guards the maps and closed. It is not
// held while a candidate starts or ends, which takes as long as its store.
type registry struct {
	most  int     // candidates at a time
	share float64 // as in candidate
	// open makes an election that has not been started.
	open func(leader.ElectionConfig) (leader.Election, error)
	// patience is how long a release may take, in addition to the wait for the
	// work.
	patience time.Duration
	count    *counters

	mu       sync.Mutex
	closed   bool // no more come
	byHandle map[string]*candidate
	byName   map[name]*candidate
	all      sync.WaitGroup // a goroutine for each
}

// A name is what candidates of one agent must not share.
type name struct{ group, id string }

// add starts a candidate. The configuration was validated. The lease is the
// client's.
//
// The candidate is entered before it starts, so that two requests of one name
// cannot both. It outlives the request that asked for it: a client that is cut
// off while the election starts may campaign again when its lease has run out.
func (r *registry) add(ctx context.Context, cfg leader.ElectionConfig, lease time.Duration) (*candidate, error) {
	window := time.Duration(float64(cfg.TTL) * (1 - cmp.Or(cfg.ClockDrift, leader.DefaultClockDrift)))
	c := &candidate{
		handle: rand.Text(), group: cfg.Group, id: cfg.InstanceID, lease: lease, pace: min(lease, window) / pacing, share: r.share,
		leave: make(chan struct{}), gone: make(chan struct{}),
	}
	cfg.Hooks = leader.JoinHooks(leader.Hooks{Transition: func(leader.Transition) { c.news.tell() }}, cfg.Hooks)
	e, err := r.open(cfg)
	if err != nil {
		return nil, err
	}
	c.attach(e)
	// An election that was not started needs no end.
	if err := r.enter(c); err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go r.follow(context.WithoutCancel(ctx), c, cfg.TTL, started)
	if err := c.start(ctx, started); err != nil {
		<-c.gone
		return nil, err
	}
	return c, nil
}

// pacing is how many keepalives there are in the time for which one is good:
// two may be lost.
const pacing = 4

// enter registers a candidate under its name. If two had one name, a record
// would not identify its candidate.
func (r *registry) enter(c *candidate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := name{c.group, c.id}
	switch other := r.byName[key]; {
	case r.closed:
		return errDraining()
	case other != nil:
		return &failure{
			status: http.StatusConflict, code: "id_taken", retry: time.Second,
			detail: fmt.Sprintf("this agent already runs candidate %q of group %q; a candidate whose client is gone leaves at the end of its lease", c.id, c.group),
			faults: []fault{{"instance_id", c.id, "must differ from the InstanceID of every other candidate of the group"}},
		}
	case len(r.byHandle) >= r.most:
		r.count.refuse("full")
		return &failure{
			status: http.StatusServiceUnavailable, code: "full", retry: time.Second,
			detail: fmt.Sprintf("the agent runs %d candidates, its maximum (--max-candidates)", r.most),
		}
	}
	r.byHandle[c.handle], r.byName[key] = c, c
	r.all.Add(1)
	return nil
}

// follow lasts as long as a candidate does. The deferred calls run in this
// order: the name is free before gone is closed, and gone before the agent may
// end.
func (r *registry) follow(ctx context.Context, c *candidate, ttl time.Duration, started <-chan error) {
	defer r.all.Done()
	defer close(c.gone)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byHandle, c.handle)
		delete(r.byName, name{c.group, c.id})
	}()
	if <-started != nil {
		return // it never campaigned
	}
	select {
	case <-c.leave:
	case <-c.e.Done():
		c.withdraw(ended)
	}
	r.count.withdraw(c.reason())
	// OnPromote waits for the work. The bound applies to the rest, which an
	// unreachable store must not hold up.
	_ = c.e.StopWithContext(ctx, leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: ttl + r.patience})
}

// find returns a candidate of the group. A handle that is another group's is
// answered like one that never was, since it is a secret.
func (r *registry) find(group, handle string) (*candidate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byHandle[handle]
	if c == nil || c.group != group {
		return nil, &failure{
			status: http.StatusNotFound, code: "no_candidate", trust: new(int64),
			detail: "there is no such candidate: its client sent no keepalive for its lease, it was withdrawn, or the agent restarted; campaign again",
		}
	}
	return c, nil
}

// number returns how many candidates there are.
func (r *registry) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byHandle)
}

// draining reports whether the agent ends.
func (r *registry) draining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// drain withdraws every candidate, and returns when all have ended. Clients may
// still report that their work has stopped. All are notified before any is
// waited for: the agent ends as soon as the last work does, and not after the
// sum of them.
func (r *registry) drain() {
	r.mu.Lock()
	r.closed = true
	all := slices.Collect(maps.Values(r.byHandle))
	r.mu.Unlock()
	for _, c := range all {
		c.withdraw(draining)
	}
	r.all.Wait()
}

// errDraining is the answer to a campaign while the agent ends.
func errDraining() error {
	return &failure{status: http.StatusServiceUnavailable, code: "draining", detail: "the agent is stopping, and takes no new candidates"}
}
