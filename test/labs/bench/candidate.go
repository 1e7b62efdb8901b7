package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A candidate is an election of which the hooks are kept.
type candidate struct {
	leader.Election
	id string

	mu     sync.Mutex
	calls  map[string]int
	ledAt  time.Time // when it began to lead, latest
	leftAt time.Time // when it ceased to lead, latest
	why    leader.Reason
	acked  time.Time // when its latest acknowledged write of the lease left
	sent   time.Time // when its latest claim that was applied left
	onCall func(leader.Call)
	moved  chan struct{} // shared: something happened; holds one
}

// plain is the configuration that the sections vary.
func plain(bucket, group, id string, ttl time.Duration) leader.ElectionConfig {
	return leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 3, DeleteOnStop: true,
		// Each section makes its bucket on servers of its own, where there was
		// none before.
		AcquireGrace: leader.GraceOff,
	}
}

// join makes a candidate on NATS and starts it. moved may be shared by
// candidates that are awaited together.
func (l *lab) join(nc *nats.Conn, cfg leader.ElectionConfig, moved chan struct{}) (*candidate, error) {
	return l.enter(cfg, moved, func(cfg leader.ElectionConfig) (leader.Election, error) { return leader.NewElection(nc, cfg) })
}

// joinUnannounced is join for a candidate that neither nominates itself nor
// hears of nominations.
func (l *lab) joinUnannounced(nc *nats.Conn, cfg leader.ElectionConfig, moved chan struct{}) (*candidate, error) {
	st, err := natsstore.New(nc, cfg.Bucket, natsstore.Options{})
	if err != nil {
		return nil, err
	}
	return l.enter(cfg, moved, func(cfg leader.ElectionConfig) (leader.Election, error) {
		return leader.NewElectionWithStore(unannounced{st}, cfg)
	})
}

// An unannounced store is no [store.Broadcaster].
type unannounced struct{ *natsstore.Store }

// Broadcast takes the place of the store's, and is none.
func (unannounced) Broadcast() {}

func (l *lab) enter(cfg leader.ElectionConfig, moved chan struct{}, elect func(leader.ElectionConfig) (leader.Election, error)) (*candidate, error) {
	c := &candidate{id: cfg.InstanceID, calls: map[string]int{}, moved: moved}
	cfg.Hooks = leader.Hooks{Transition: c.transition, Call: c.call}
	var err error
	if c.Election, err = elect(cfg); err != nil {
		return nil, err
	}
	// As a program has them.
	c.OnPromote(func(context.Context, string) {})
	c.OnDemote(func() {})
	return c, c.Start(l.Ctx)
}

func (c *candidate) transition(t leader.Transition) {
	if t.To == leader.StateLeader {
		c.mu.Lock()
		c.ledAt = t.At
		c.mu.Unlock()
	}
	if t.From == leader.StateLeader {
		c.mu.Lock()
		c.leftAt, c.why = t.At, t.Reason
		c.mu.Unlock()
	}
	c.stir()
}

func (c *candidate) call(call leader.Call) {
	c.mu.Lock()
	c.calls[call.Kind]++
	if call.Outcome == store.OK && (call.Kind == "acquire" || call.Kind == "renew") {
		c.acked = call.Sent
	}
	if call.Outcome == store.OK && call.Kind == "acquire" {
		c.sent = call.Sent
	}
	f := c.onCall
	c.mu.Unlock()
	if f != nil {
		f(call)
	}
	c.stir()
}

func (c *candidate) stir() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

func (c *candidate) count(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[kind]
}

func (c *candidate) led() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledAt
}

func (c *candidate) claimed() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

func (c *candidate) left() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leftAt
}

func (c *candidate) reason() leader.Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

func (c *candidate) lastAcked() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

func (c *candidate) follows(id string) bool {
	s := c.Status()
	return s.State == leader.StateFollower && s.LeaderID == id
}

// eventually tries f until it succeeds.
func (l *lab) eventually(what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(l.Ctx, harness.Patience)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, 2*time.Second)
		err := f(attempt)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stopAll stops elections, all at once.
func stopAll[E leader.Election](es []E) error {
	return harness.Each(len(es), len(es), func(i int) error { return es[i].Stop() })
}
