package consulstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Check implements [store.Checker]. It demands that the servers have a leader,
// and that the token may read and write the key; nothing is written. It warns
// of an agent in development mode, which forgets, of an agent that does not
// report its configuration, of an even number of servers, and of a lease that a
// change of Consul's own leader outlasts.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s.Pace(req.HeartbeatInterval, req.Key)
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return store.Report{}, err
	}
	defer cancel()
	if err := s.hasLeader(ctx); err != nil {
		return store.Report{}, err
	}
	peers, err := s.consul.Status().PeersWithQueryOptions((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return store.Report{}, s.readError(ctx, "the list of servers", err)
	}
	agent, err := s.agent(ctx)
	if err != nil {
		return store.Report{}, err
	}
	if err := base.Usable(ctx, s.Store, req); err != nil {
		return store.Report{}, err
	}
	return report(len(peers), agent, req.TTL), nil
}

// An agent is the part of its configuration that the agent reports.
type agent struct {
	told      bool // it may be read
	dev       bool
	heartbeat time.Duration // of Raft
}

// heartbeat is Raft's heartbeat with Consul's default
// performance.raft_multiplier.
const heartbeat = 5 * time.Second

// agent reads the agent's configuration.
func (c *client) agent(ctx context.Context) (agent, error) {
	a := agent{heartbeat: heartbeat}
	var self map[string]map[string]any
	_, err := c.consul.Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx))
	switch err := c.readError(ctx, "the agent's configuration", err); {
	case errors.Is(err, store.ErrPermanent):
		return a, nil
	case err != nil:
		return a, err
	}
	config := self["DebugConfig"]
	a.dev, a.told = config["DevMode"].(bool)
	if text, ok := config["ConsulRaftHeartbeatTimeout"].(string); ok {
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			a.heartbeat = d
		}
	}
	return a, nil
}

// report returns the warnings about weakened guarantees.
func report(servers int, a agent, ttl time.Duration) store.Report {
	var r store.Report
	warn := func(when bool, format string, args ...any) {
		if when {
			r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
		}
	}
	r.Forgetful = a.dev || !a.told
	warn(a.dev, "The agent is in development mode, which keeps its data in memory: a restart loses every record, so each promotion waits for a lease.")
	warn(!a.told, "The token may not read the agent's configuration, so that it may be in development mode, which forgets at a restart:"+
		` each promotion waits for a lease. Give it a policy with agent_prefix "" { policy = "read" }.`)
	warn(servers > 1 && servers%2 == 0, "Consul has %d servers, and stops when %d of them are down, as with a server less. Use an odd number.", servers, servers/2)
	// A follower notices the leader's silence after one to two of its
	// heartbeats, and the election takes up to as long again if votes split.
	failover := 3 * a.heartbeat
	warn(servers > 1 && ttl > 0 && ttl < failover, "A lease of %v may end while Consul changes its own leader, which may take %v."+
		" Use a longer TTL, or set performance.raft_multiplier = 1 on the servers.", ttl, failover)
	return r
}
