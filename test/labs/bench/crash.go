package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// measureCrash: from the last acknowledged renewal (the instant at which it
// left) of a leader that falls silent to the successor's IsLeader.
func measureCrash(l *lab) error {
	for _, on := range []*servers{l.one, l.three} {
		ttls := []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second}
		if l.Quick {
			ttls = ttls[:1]
		}
		for _, ttl := range ttls {
			samples, err := l.crashes(on, ttl, l.N(50, 6))
			if err != nil {
				return fmt.Errorf("replicas %d, TTL %v: %w", on.replicas, ttl, err)
			}
			wait := time.Duration(float64(ttl) * (1 + leader.DefaultClockDrift))
			over := samples.Median() - wait
			l.report.durations(fmt.Sprintf("crash failover, R%d file, TTL %v", on.replicas, ttl), samples,
				fmt.Sprintf("TTL × 1.1 %+.1f ms", ms(over)), &verdict{"p50 ≤ TTL × 1.1 + 10 ms", over <= 10*time.Millisecond})
		}
	}
	return nil
}

// crashes lets the leaders of n groups crash, spread over time so that they do
// not load each other.
func (l *lab) crashes(on *servers, ttl time.Duration, n int) (harness.Samples, error) {
	bucket, err := l.bucket(on)
	if err != nil {
		return nil, err
	}
	sound, err := on.Connect()
	if err != nil {
		return nil, err
	}
	defer sound.Close()
	samples := make(harness.Samples, n)
	err = l.Spread(n, max(ttl/time.Duration(n), 20*time.Millisecond), func(i int) (err error) {
		for begun, try := time.Now(), 0; ; try++ {
			samples[i], err = l.crash(on, sound, bucket, fmt.Sprintf("g%d-%d", i, try), ttl)
			if !errors.Is(err, errStalled) || time.Since(begun) > harness.Patience {
				return err
			}
		}
	})
	return samples, err
}

// errStalled: the machine stalled for a lease, and the victim led no more when
// it was to crash.
var errStalled = errors.New("the leader lost its lease before it was to crash")

// crash closes the leader's connection after an acknowledged renewal, and waits
// for the successor.
func (l *lab) crash(on *servers, sound *nats.Conn, bucket, group string, ttl time.Duration) (time.Duration, error) {
	nc, err := on.Connect()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	moved := make(chan struct{}, 1)
	victim, err := l.join(nc, plain(bucket, group, "victim", ttl), moved)
	if err != nil {
		return 0, err
	}
	defer func() { _ = victim.StopWithContext(l.Ctx, leader.StopOptions{WaitForDemote: true}) }()
	if err := l.Await("the victim leads", moved, victim.IsLeader); err != nil {
		return 0, err
	}
	heir, err := l.join(sound, plain(bucket, group, "heir", ttl), moved)
	if err != nil {
		return 0, err
	}
	defer func() { _ = heir.Stop() }()
	if err := l.Await("the heir follows", moved, func() bool { return heir.follows("victim") || !victim.IsLeader() }); err != nil {
		return 0, err
	}
	var crashed atomic.Bool
	var once sync.Once
	victim.mu.Lock()
	victim.onCall = func(c leader.Call) {
		if c.Kind == "renew" && c.Outcome == store.OK {
			// At once, so that no further renewal is on its way.
			once.Do(func() { go func() { nc.Close(); crashed.Store(true); victim.stir() }() })
		}
	}
	victim.mu.Unlock()
	if err := l.Await("the crash", moved, func() bool { return crashed.Load() || !victim.IsLeader() }); err != nil {
		return 0, err
	}
	if !crashed.Load() {
		return 0, errStalled
	}
	if err := l.Await("the heir leads", moved, heir.IsLeader); err != nil {
		return 0, err
	}
	return heir.led().Sub(victim.lastAcked()), nil
}
