package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

type candidate = peer.OurCandidate

// plain is the configuration that the sections vary.
func plain(bucket, group, id string, ttl time.Duration) leader.ElectionConfig {
	return peer.OurConfig(bucket, peer.Candidacy{Group: group, ID: id, Lease: peer.Lease{TTL: ttl, Heartbeat: ttl / 3}})
}

// join makes a candidate on NATS and starts it. moved holds one, and may be
// shared by candidates that are awaited together.
func (l *lab) join(nc *nats.Conn, cfg leader.ElectionConfig, moved chan struct{}) (*candidate, error) {
	as := peer.Candidacy{ID: cfg.InstanceID, Moved: func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	}}
	return peer.Enter(l.Ctx, as, cfg, func(cfg leader.ElectionConfig) (leader.Election, error) { return leader.NewElection(nc, cfg) })
}

// stopAll stops candidates, all at once.
func stopAll(cs []*candidate) error {
	return harness.Each(len(cs), len(cs), func(i int) error { return cs[i].Election.Stop() })
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
