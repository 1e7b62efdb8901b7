package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// measureRenewal: a leader alone.
func measureRenewal(l *lab) error {
	bucket, err := l.bucket(l.one)
	if err != nil {
		return err
	}
	var m harness.Meter
	nc, err := l.one.Connect(nats.SetCustomDialer(&m))
	if err != nil {
		return err
	}
	defer nc.Close()
	moved := make(chan struct{}, 1)
	cfg := plain(bucket, "group", "instance-1234", 3*time.Second)
	cfg.HeartbeatInterval = 20 * time.Millisecond
	c, err := l.join(nc, cfg, moved)
	if err != nil {
		return err
	}
	defer func() { _ = c.Stop() }()
	renewed := func(n int) error {
		return l.Await("renewals", moved, func() bool { return c.count("renew") >= n })
	}
	if err := renewed(10); err != nil {
		return err
	}
	n := l.N(200, 20)
	from, up, down, before := c.count("renew"), m.Up.Load(), m.Down.Load(), harness.Memory()
	wire, err := l.traffic(l.one)
	if err != nil {
		return err
	}
	if err := renewed(from + n); err != nil {
		return err
	}
	after := harness.Memory()
	now, err := l.traffic(l.one)
	if err != nil {
		return err
	}
	did := float64(c.count("renew") - from)
	sent := now.sub(wire)
	each := func(what, unit string, total int64, v *verdict) {
		l.report.add(figure{Name: "renewal, " + what, Unit: unit, Value: float64(total) / did}, v)
	}
	each("messages to the server", "", sent.In, &verdict{"1 write", float64(sent.In)/did < 1.05})
	each("messages from the server (answer, own watch)", "", sent.Out, nil)
	each("bytes on the wire, up", "B", m.Up.Load()-up, nil)
	each("bytes on the wire, down", "B", m.Down.Load()-down, nil)
	each("allocations", "", int64(after.Mallocs-before.Mallocs), nil)
	each("allocated", "B", int64(after.TotalAlloc-before.TotalAlloc), nil)
	return nil
}

// measureSteady: one leader and ten followers, each with a connection of its
// own.
func measureSteady(l *lab) error {
	const followers, heartbeat = 10, 100 * time.Millisecond
	bucket, err := l.bucket(l.one)
	if err != nil {
		return err
	}
	moved := make(chan struct{}, 1)
	var cs []*candidate
	var conns []*nats.Conn
	defer func() {
		_ = stopAll(cs)
		for _, nc := range conns {
			nc.Close()
		}
	}()
	for i := range followers + 1 {
		nc, err := l.one.Connect()
		if err != nil {
			return err
		}
		conns = append(conns, nc)
		cfg := plain(bucket, "g", fmt.Sprint("c", i), 3*time.Second)
		cfg.HeartbeatInterval = heartbeat
		c, err := l.join(nc, cfg, moved)
		if err != nil {
			return err
		}
		cs = append(cs, c)
		if err := l.Await("a leader", moved, func() bool { return cs[0].IsLeader() }); err != nil {
			return err
		}
	}
	if err := l.Await("followers", moved, func() bool {
		return !slices.ContainsFunc(cs[1:], func(c *candidate) bool { return !c.follows("c0") })
	}); err != nil {
		return err
	}
	sentByFollowers := func() (n uint64) {
		for _, nc := range conns[1:] {
			n += nc.Stats().OutMsgs
		}
		return n
	}
	window := 31 * time.Second // longer than anything that is done now and then
	if l.Quick {
		window = time.Second
	}
	wire, err := l.traffic(l.one)
	if err != nil {
		return err
	}
	renewals, byFollowers := cs[0].count("renew"), sentByFollowers()
	if err := l.Pause(window); err != nil {
		return err
	}
	now, err := l.traffic(l.one)
	if err != nil {
		return err
	}
	did, sent := float64(cs[0].count("renew")-renewals), now.sub(wire)
	followed := float64(sentByFollowers() - byFollowers)
	l.report.add(figure{Name: "1 leader, 10 followers: messages to the server per renewal", Unit: "",
		Value: float64(sent.In) / did}, &verdict{"1 write", float64(sent.In)/did < 1.05})
	l.report.add(figure{Name: "1 leader, 10 followers: messages from the server per renewal", Unit: "", Value: float64(sent.Out) / did}, nil)
	l.report.add(figure{Name: "1 leader, 10 followers: messages that a follower sends", Unit: "/min",
		Value: followed / followers / window.Minutes()}, &verdict{"no polling", followed/followers <= max(1, 2*window.Minutes()+1)})
	return nil
}

// measureThousand: memory and goroutines of a thousand elections on one
// connection. The servers are in another process.
func measureThousand(l *lab) error {
	n := l.N(1000, 100)
	for _, shared := range []bool{true, false} {
		bucket, err := l.bucket(l.one)
		if err != nil {
			return err
		}
		if err := l.crowd(bucket, n, shared); err != nil {
			return err
		}
	}
	c, err := l.one.Consumers(l.Ctx)
	if err != nil {
		return err
	}
	l.report.add(figure{Name: "consumers on the server", Unit: "", Value: float64(c)}, &verdict{"0", c == 0})
	return nil
}

func (l *lab) crowd(bucket string, n int, shared bool) error {
	how := "NewElection"
	if shared {
		how = "NewElectionWithStore"
	}
	var all []leader.Election
	var conns []*nats.Conn
	var stores []*natsstore.Store
	defer func() {
		_ = stopAll(all)
		for _, st := range stores {
			st.Close()
		}
		for _, nc := range conns {
			nc.Close()
		}
	}()
	for _, side := range []string{"leader", "follower"} {
		nc, err := l.one.Connect()
		if err != nil {
			return err
		}
		conns = append(conns, nc)
		st, err := natsstore.New(nc, bucket, natsstore.Options{})
		if err != nil {
			return err
		}
		stores = append(stores, st)
		before := harness.Measure()
		es := make([]leader.Election, n)
		for i := range es {
			cfg := plain(bucket, fmt.Sprintf("g%d", i), side, time.Hour)
			if shared {
				es[i], err = leader.NewElectionWithStore(st, cfg)
			} else {
				es[i], err = leader.NewElection(nc, cfg)
			}
			if err != nil {
				return err
			}
		}
		all = append(all, es...)
		if err := harness.Each(n, 50, func(i int) error { return es[i].Start(l.Ctx) }); err != nil {
			return err
		}
		err = l.Await("all are "+side+"s", nil, func() bool {
			return !slices.ContainsFunc(es, func(e leader.Election) bool {
				return e.LeaderID() != "leader" || e.IsLeader() != (side == "leader")
			})
		})
		if err != nil {
			return err
		}
		// What the process has once (the connections' own goroutines, the
		// runtime's) is no election's.
		const perProcess = 10
		bytes, each := harness.Measure().Each(before, n)
		name := fmt.Sprintf("%d elections by %s, %s side: ", n, how, side)
		l.report.add(figure{Name: name + "heap each", Unit: "B", Value: bytes}, &verdict{"≤ 16 KiB", bytes <= 16<<10})
		l.report.add(figure{Name: name + "goroutines each", Unit: "", Value: each}, &verdict{"≤ 2", each <= 2+perProcess/float64(n)})
	}
	return nil
}

// measureRhythm: what a thousand leaders of one process cost that have begun
// one after the other within a heartbeat, as roles come and go. Each renews in
// a rhythm of its own.
func measureRhythm(l *lab) error {
	const ttl = 3 * time.Second
	n := l.N(1000, 100)
	bucket, err := l.bucket(l.one)
	if err != nil {
		return err
	}
	nc, err := l.one.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	st, err := natsstore.New(nc, bucket, natsstore.Options{WatchWholeBucket: true})
	if err != nil {
		return err
	}
	defer st.Close()
	var all []leader.Election
	defer func() { _ = stopAll(all) }()
	next := time.NewTicker(ttl / 3 / time.Duration(n))
	defer next.Stop()
	for i := range n {
		<-next.C
		e, err := leader.NewElectionWithStore(st, plain(bucket, fmt.Sprintf("g%d", i), "leader", ttl))
		if err != nil {
			return err
		}
		if err := e.Start(l.Ctx); err != nil {
			return err
		}
		all = append(all, e)
	}
	if err := l.Await("all lead", nil, func() bool { return !slices.ContainsFunc(all, func(e leader.Election) bool { return !e.IsLeader() }) }); err != nil {
		return err
	}
	window := 20 * time.Second
	if l.Quick {
		window = time.Second
	}
	used, from := harness.Processor(), time.Now()
	if err := l.Pause(window); err != nil {
		return err
	}
	share := float64(harness.Processor()-used) / float64(time.Since(from))
	l.report.add(figure{Name: fmt.Sprintf("%d leaders that began one after the other, a renewal a second each: of one processor", n), Unit: "%", Value: 100 * share}, nil)
	return nil
}

// measureHerd: claims at a release among two hundred candidates.
func measureHerd(l *lab) error {
	n, releases := l.N(200, 20), l.N(15, 3)
	r := &relay{l: l, on: l.one, moved: make(chan struct{}, 1)}
	var err error
	if r.bucket, err = l.bucket(l.one); err != nil {
		return err
	}
	defer r.close()
	if err := harness.Each(n, n, func(i int) error { return r.add(fmt.Sprint("c", i), time.Minute) }); err != nil {
		return err
	}
	claims := func() (sum int) {
		for _, c := range r.runs {
			sum += c.count("acquire")
		}
		return sum
	}
	var counts []int
	var took harness.Samples
	for range releases {
		if _, err := r.leader(); err != nil {
			return err
		}
		before := claims()
		d, err := r.pass(false)
		if err != nil {
			return err
		}
		if _, err := r.leader(); err != nil {
			return err
		}
		counts, took = append(counts, claims()-before), append(took, d)
	}
	slices.Sort(counts)
	median := counts[len(counts)/2]
	l.report.add(figure{Name: fmt.Sprintf("claims at a release among %d candidates", n), N: releases, Unit: "",
		Value: float64(median), P99: float64(counts[len(counts)-1])}, &verdict{"p50 ≤ 40", median <= 40})
	l.report.durations(fmt.Sprintf("handover among %d candidates", n), took, "", nil)
	return nil
}
