package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func measureIsLeader(l *lab) error {
	bucket, err := l.bucket(l.one)
	if err != nil {
		return err
	}
	nc, err := l.one.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	moved := make(chan struct{}, 1)
	c, err := l.join(nc, plain(bucket, "g", "a", time.Minute), moved)
	if err != nil {
		return err
	}
	defer func() { _ = c.Stop() }()
	if err := l.await("a leader", moved, c.IsLeader); err != nil {
		return err
	}
	r := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if !c.IsLeader() {
				b.Fatal("it leads no more")
			}
		}
	})
	ns := float64(r.T.Nanoseconds()) / float64(r.N)
	l.report.add(figure{Name: "IsLeader", N: r.N, Unit: "ns", Value: ns}, &verdict{"≤ 100 ns", ns <= 100})
	l.report.add(figure{Name: "IsLeader, allocations", Unit: "", Value: float64(r.AllocsPerOp())}, &verdict{"0", r.AllocsPerOp() == 0})
	return nil
}

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
		{"R1 file, Resign, 1 follower", l.one, 1, l.n(300, 10), false, 5},
		{"R1 file, Stop, 1 follower", l.one, 1, l.n(100, 5), true, 5},
		{"R1 file, Resign, 5 followers", l.one, 5, l.n(100, 5), false, 0},
		{"R3 file, Resign, 1 follower", l.three, 1, l.n(200, 10), false, 0},
	} {
		samples, floor, err := l.handovers(c.on, c.followers, c.n, c.stop)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		l.report.durations("the floor: a CAS round trip, meanwhile", floor, "", nil)
		ratio := float64(percentile(samples, 50)) / float64(percentile(floor, 50))
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
	conns  []*nats.Conn
}

func (r *relay) join() error {
	nc, err := r.on.connect()
	if err != nil {
		return err
	}
	r.conns = append(r.conns, nc)
	r.made++
	c, err := r.l.join(nc, plain(r.bucket, "g", fmt.Sprintf("c%d", r.made), 10*time.Second), r.moved)
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
	err = r.l.await("a leader with followers", r.moved, func() bool {
		if c = r.leading(); c == nil {
			return false
		}
		for _, f := range r.runs {
			if f != c && !f.follows(c.id) {
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
		err = old.Stop()
	} else {
		err = old.Resign(r.l.ctx)
	}
	if err != nil {
		return 0, err
	}
	var next *candidate
	err = r.l.await("a successor", r.moved, func() bool {
		next = r.leading()
		return next != nil && next != old
	})
	if err != nil {
		return 0, err
	}
	took := next.led().Sub(begun)
	if stop {
		r.runs = slices.DeleteFunc(r.runs, func(c *candidate) bool { return c == old })
		err = r.join()
	}
	return took, err
}

// handovers hands over n times, with plain compare-and-swaps in between.
func (l *lab) handovers(on *servers, followers, n int, stop bool) (samples, floor []time.Duration, err error) {
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
	cas, err := newCAS(l.ctx, on, r.bucket)
	if err != nil {
		return nil, nil, err
	}
	defer cas.nc.Close()
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
			d, err := cas.once()
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

// A cas writes to a key of its own, by compare-and-swap and nothing else.
type cas struct {
	ctx     context.Context
	nc      *nats.Conn
	js      jetstream.JetStream
	subject string
	rev     uint64
	value   []byte
}

func newCAS(ctx context.Context, on *servers, bucket string) (*cas, error) {
	nc, err := on.connect()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	return &cas{ctx: ctx, nc: nc, js: js, subject: "$KV." + bucket + ".floor", value: make([]byte, 150)}, err
}

func (c *cas) once() (time.Duration, error) {
	begun := time.Now()
	ack, err := c.js.PublishMsg(c.ctx, &nats.Msg{Subject: c.subject, Data: c.value}, jetstream.WithExpectLastSequencePerSubject(c.rev))
	took := time.Since(begun)
	if err != nil {
		return 0, err
	}
	c.rev = ack.Sequence
	return took, nil
}
