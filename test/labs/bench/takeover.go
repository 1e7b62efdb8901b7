package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// measureTakeover: a candidate that is preferred asks the leader for the lead.
// How long does nobody lead?
func measureTakeover(l *lab) error {
	for _, c := range []struct {
		what string
		on   *servers
	}{{"R1 file", l.one}, {"R3 file", l.three}} {
		var gaps harness.Samples
		for range l.N(30, 3) {
			gap, err := l.takeover(c.on)
			if err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
			gaps = append(gaps, gap)
		}
		l.report.durations("takeover by priority, leaderless, "+c.what, gaps, "", nil)
	}
	return nil
}

// takeover makes a group in which the second to come is preferred, and returns
// how long nobody led between the two.
func (l *lab) takeover(on *servers) (gap time.Duration, err error) {
	bucket, err := l.bucket(on)
	if err != nil {
		return 0, err
	}
	moved := make(chan struct{}, 1)
	var both []*candidate
	var conns []*nats.Conn
	defer func() {
		err = errors.Join(err, stopAll(both))
		for _, nc := range conns {
			nc.Close()
		}
	}()
	for priority, id := range []string{"low", "high"} {
		nc, err := on.Connect()
		if err != nil {
			return 0, err
		}
		conns = append(conns, nc)
		cfg := plain(bucket, "g", id, time.Second)
		cfg.HeartbeatInterval = 20 * time.Millisecond
		cfg.Priority, cfg.AllowPriorityTakeover, cfg.MinTenure = priority, true, time.Millisecond
		c, err := l.join(nc, cfg, moved)
		if err != nil {
			return 0, err
		}
		both = append(both, c)
		if err := l.Await(id+" leads", moved, c.IsLeader); err != nil {
			return 0, err
		}
	}
	low, high := both[0], both[1]
	if err := l.Await("low knows why", moved, func() bool { return !low.Left().IsZero() }); err != nil {
		return 0, err
	}
	if why := low.Reason(); why != leader.ReasonOutranked {
		return 0, fmt.Errorf("low lost its term by %q", why)
	}
	return high.Led().Sub(low.Left()), nil
}
