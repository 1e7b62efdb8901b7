package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leadergrpc"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// rate is how many calls leave in a second.
const rate = 500

// A lab is three instances and a client that calls the leader all the time.
type lab struct {
	harness.Run

	servers harness.NATS
	made    int
	events  chan event
	runs    map[string]*harness.Child
	leader  string
	load    load
}

func measure(ctx context.Context, quick bool, progress io.Writer) (f *figures, err error) {
	ctx, cancel := context.WithCancel(ctx) // which kills what still runs
	defer cancel()
	l := &lab{Run: harness.Run{Ctx: ctx, Quick: quick, Progress: progress}, events: make(chan event, 64), runs: map[string]*harness.Child{}}
	f = &figures{machine: harness.ThisMachine()}
	process, err := harness.StartChild(ctx, "-serve")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, process.End()) }()
	if err := process.Hear(&l.servers); err != nil {
		return nil, err
	}
	nc, err := l.servers.Connect()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	if err := l.prepare(nc); err != nil {
		return nil, err
	}
	defer l.end()
	conn, err := reach(nc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := l.load.start(ctx, conn)
	err = l.rounds(f)
	stop()
	f.calls, f.failures = l.load.total()
	return f, err
}

// prepare makes the bucket and starts the instances.
func (l *lab) prepare(nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if err := natsstore.EnsureBucket(l.Ctx, js, natsstore.BucketConfig{Bucket: bucket, Replicas: 1}); err != nil {
		return err
	}
	for range 3 {
		if err := l.join(); err != nil {
			return err
		}
	}
	return nil
}

// reach opens the channel of the client.
func reach(nc *nats.Conn) (*grpc.ClientConn, error) {
	b := leadergrpc.NewBuilder(func(ctx context.Context, group string) iter.Seq2[leader.LeaderInfo, error] {
		return leader.Observe(ctx, nc, bucket, group)
	}, leadergrpc.BuilderOptions{
		Repeatable: func(string) bool { return true },
		RetryFor:   harness.Patience, // no call fails but by a fault of ours, however slow the machine is
	})
	return grpc.NewClient("leader:///"+group, append(b.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

func (l *lab) rounds(f *figures) error {
	err := l.Measure("handovers", func() error {
		for range l.N(20, 2) {
			floor, err := l.quiet()
			if err != nil {
				return err
			}
			begun := time.Now()
			at, err := l.succeed(func(c *harness.Child) error { return c.End() })
			if err != nil {
				return err
			}
			took, longest := at.Sub(begun), l.load.longest(begun)
			f.floor = append(f.floor, floor)
			f.handover, f.handed, f.beyond = append(f.handover, took), append(f.handed, longest), append(f.beyond, longest-took)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.Measure("crashes", func() error {
		for range l.N(10, 1) {
			floor, err := l.quiet()
			if err != nil {
				return err
			}
			f.floor = append(f.floor, floor)
			begun := time.Now()
			at, err := l.succeed(func(c *harness.Child) error { c.Kill(); return nil })
			if err != nil {
				return err
			}
			f.failover, f.crashed = append(f.failover, at.Sub(begun)), append(f.crashed, l.load.longest(begun))
		}
		return nil
	})
}

// settle is how long a change of leader is watched beyond its end, and how long
// a time without one.
const settle = 300 * time.Millisecond

// quiet has three instances stand, lets time pass, and returns how long the
// slowest call took in it: what the machine alone costs.
func (l *lab) quiet() (time.Duration, error) {
	for len(l.runs) < 3 {
		if err := l.join(); err != nil {
			return 0, err
		}
	}
	if err := l.Pause(settle); err != nil {
		return 0, err
	}
	begun := time.Now()
	err := l.Pause(settle)
	return l.load.longest(begun), err
}

// succeed ends the leader and returns when its successor began to lead, and the
// calls that had waited have been answered.
func (l *lab) succeed(end func(*harness.Child) error) (time.Time, error) {
	old := l.leader
	ended := make(chan error, 1)
	go func(c *harness.Child) { ended <- end(c) }(l.runs[old])
	delete(l.runs, old)
	at, err := l.hear("a successor", func(e event) bool { return !e.Ready && e.ID != old })
	if err != nil {
		return at, err
	}
	if err := <-ended; err != nil {
		return at, err
	}
	return at, l.Pause(settle)
}

// join adds an instance.
func (l *lab) join() error {
	l.made++
	id := fmt.Sprintf("i%d", l.made)
	c, err := harness.StartChild(l.Ctx, "-instance", id, "-url", l.servers.URL())
	if err != nil {
		return err
	}
	l.runs[id] = c
	go func() {
		for {
			var e event
			if c.Hear(&e) != nil {
				return // it has ended
			}
			l.events <- e
		}
	}()
	_, err = l.hear("instance "+id, func(e event) bool { return e.Ready && e.ID == id })
	return err
}

// hear waits for an event, and notes who leads.
func (l *lab) hear(what string, wanted func(event) bool) (time.Time, error) {
	limit := time.NewTimer(harness.Patience)
	defer limit.Stop()
	for {
		select {
		case e := <-l.events:
			if !e.Ready {
				l.leader = e.ID
			}
			if wanted(e) {
				return e.At, nil
			}
		case <-limit.C:
			return time.Time{}, fmt.Errorf("waiting for %s: %w", what, harness.ErrPatience)
		case <-l.Ctx.Done():
			return time.Time{}, l.Ctx.Err()
		}
	}
}

// end kills the instances that are left.
func (l *lab) end() {
	for _, c := range l.runs {
		c.Kill()
	}
}

// A load calls the leader at a steady rate.
type load struct {
	mu       sync.Mutex
	calls    []call
	failures []string
	under    map[int]time.Time // when those began that are under way
}

type call struct {
	began time.Time
	took  time.Duration
}

// start begins to call. stop returns when all calls have ended.
func (l *load) start(ctx context.Context, conn *grpc.ClientConn) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.under = map[int]time.Time{}
	var all sync.WaitGroup
	all.Go(func() {
		begun := time.Now()
		for i := 0; ; i++ {
			select {
			case <-time.After(time.Until(begun.Add(time.Duration(i) * time.Second / rate))):
			case <-ctx.Done():
				return
			}
			all.Go(func() { l.call(context.WithoutCancel(ctx), conn, i) })
		}
	})
	return func() { cancel(); all.Wait() }
}

func (l *load) call(ctx context.Context, conn *grpc.ClientConn, i int) {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	l.mu.Lock()
	began := time.Now()
	l.under[i] = began
	l.mu.Unlock()
	err := conn.Invoke(ctx, method, wrapperspb.String(""), new(wrapperspb.StringValue))
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.under, i)
	l.calls = append(l.calls, call{began, time.Since(began)})
	if err != nil {
		l.failures = append(l.failures, err.Error())
	}
}

// longest is how long the slowest call has taken that ended after an instant,
// or is under way.
func (l *load) longest(since time.Time) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.began.Add(c.took).After(since) {
			d = max(d, c.took)
		}
	}
	for _, began := range l.under {
		d = max(d, time.Since(began))
	}
	return d
}

func (l *load) total() (calls int, failures []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls), l.failures
}
