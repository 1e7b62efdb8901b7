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
	defer func() { _ = c.Election.Stop() }()
	renewed := func(n int) error {
		return l.Await("renewals", moved, func() bool { return c.Calls("renew") >= n })
	}
	if err := renewed(10); err != nil {
		return err
	}
	n := l.N(200, 20)
	from, up, down, before := c.Calls("renew"), m.Up.Load(), m.Down.Load(), harness.Memory()
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
	did := float64(c.Calls("renew") - from)
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

// measureRhythm measures the cost of a thousand leaders in one process that
// started one after the other within a heartbeat, as roles come and go. Each
// leader renews in its own rhythm.
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
	defer func() { _ = harness.Each(len(all), n, func(i int) error { return all[i].Stop() }) }()
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
	consumers, err := l.one.Consumers(l.Ctx)
	if err != nil {
		return err
	}
	l.report.add(figure{Name: fmt.Sprintf("%d elections on one connection: consumers on the server", n), Value: float64(consumers)}, &verdict{"0", consumers == 0})
	share := float64(harness.Processor()-used) / float64(time.Since(from))
	l.report.add(figure{Name: fmt.Sprintf("%d leaders that began one after the other, a renewal a second each: of one processor", n), Unit: "%", Value: 100 * share}, nil)
	return nil
}
