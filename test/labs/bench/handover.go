package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// measureHandover: from the call that releases to the successor's IsLeader.
func measureHandover(l *lab) error {
	for _, c := range []struct {
		what      string
		on        *servers
		followers int
		n         int
		stop      bool
		target    float64 // times the floor; 0: none
	}{
		{"R1 file, Resign, 1 follower", l.one, 1, l.N(300, 10), false, 5},
		{"R1 file, Stop, 1 follower", l.one, 1, l.N(100, 5), true, 5},
		{"R1 file, Resign, 5 followers", l.one, 5, l.N(100, 5), false, 0},
		{"R3 file, Resign, 1 follower", l.three, 1, l.N(200, 10), false, 0},
	} {
		samples, floor, err := l.handovers(c.on, c.followers, c.n, c.stop)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		l.report.durations("the floor: a CAS round trip, meanwhile", floor, "", nil)
		ratio := float64(samples.Median()) / float64(floor.Median())
		var v *verdict
		if c.target > 0 {
			v = &verdict{fmt.Sprintf("p50 ≤ %v × CAS", c.target), ratio <= c.target}
		}
		l.report.durations("handover, "+c.what, samples, fmt.Sprintf("%.1f × CAS", ratio), v)
	}
	return nil
}

// A relay is a group that hands its leadership round.
type relay struct {
	l      *lab
	on     *servers
	bucket string
	moved  chan struct{}
	runs   []*candidate
	made   int
	mu     sync.Mutex // while candidates are added
	conns  []*nats.Conn
}

// join adds one more candidate.
func (r *relay) join() error {
	r.made++
	return r.add(fmt.Sprintf("c%d", r.made), 10*time.Second)
}

// add adds a candidate with its own connection. It may be called concurrently.
func (r *relay) add(id string, ttl time.Duration) error {
	nc, err := r.on.Connect()
	if err != nil {
		return err
	}
	c, err := r.l.join(nc, plain(r.bucket, "g", id, ttl), r.moved)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, nc)
	if err == nil {
		r.runs = append(r.runs, c)
	}
	return err
}

func (r *relay) close() {
	_ = stopAll(r.runs)
	for _, nc := range r.conns {
		nc.Close()
	}
}

// leader waits until somebody leads, and everybody else follows.
func (r *relay) leader() (c *candidate, err error) {
	err = r.l.Await("a leader with followers", r.moved, func() bool {
		if c = r.leading(); c == nil {
			return false
		}
		for _, f := range r.runs {
			if f != c && !f.Follows(c.ID()) {
				return false
			}
		}
		return true
	})
	return c, err
}

func (r *relay) leading() *candidate {
	for _, c := range r.runs {
		if c.IsLeader() {
			return c
		}
	}
	return nil
}

// pass has the leader release, and returns how long nobody led.
func (r *relay) pass(stop bool) (time.Duration, error) {
	old, err := r.leader()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if stop {
		err = old.Election.Stop()
	} else {
		err = old.Resign(r.l.Ctx)
	}
	if err != nil {
		return 0, err
	}
	var next *candidate
	err = r.l.Await("a successor", r.moved, func() bool {
		next = r.leading()
		return next != nil && next != old
	})
	if err != nil {
		return 0, err
	}
	took := next.Led().Sub(begun)
	if stop {
		r.runs = slices.DeleteFunc(r.runs, func(c *candidate) bool { return c == old })
		err = r.join()
	}
	return took, err
}

// handovers hands over n times, with plain compare-and-swaps in between.
func (l *lab) handovers(on *servers, followers, n int, stop bool) (samples, floor harness.Samples, err error) {
	r := &relay{l: l, on: on, moved: make(chan struct{}, 1)}
	if r.bucket, err = l.bucket(on); err != nil {
		return nil, nil, err
	}
	defer r.close()
	for range followers + 1 {
		if err := r.join(); err != nil {
			return nil, nil, err
		}
	}
	swaps, err := on.Swaps(r.bucket)
	if err != nil {
		return nil, nil, err
	}
	defer swaps.Close()
	const warmUp = 3
	for i := range n + warmUp {
		took, err := r.pass(stop)
		if err != nil {
			return nil, nil, err
		}
		if _, err := r.leader(); err != nil {
			return nil, nil, err
		}
		for range 3 {
			d, err := swaps.Once(l.Ctx)
			if err != nil {
				return nil, nil, err
			}
			if i >= warmUp {
				floor = append(floor, d)
			}
		}
		if i >= warmUp {
			samples = append(samples, took)
		}
	}
	return samples, floor, nil
}
