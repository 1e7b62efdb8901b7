package main

import (
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	figures "github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	measure "github.com/seed-ff2cb582/leader/test/internal/measure/lab"
)

// The sections below also appear in make compare, here for this library alone.

func measureIsLeader(l *lab) error {
	if err := measure.Answer(l.one.bench); err != nil {
		return err
	}
	r := l.one.bench.Result
	l.report.add(figure{Name: "IsLeader", Unit: "ns", Value: r.Answer}, &verdict{"≤ 100 ns", r.Answer <= 100})
	l.report.add(figure{Name: "IsLeader, allocations", Value: float64(r.Allocations)}, &verdict{"0", r.Allocations == 0})
	return nil
}

func measureCrash(l *lab) error {
	for _, on := range []*servers{l.one, l.three} {
		if err := measure.Crash(on.bench); err != nil {
			return fmt.Errorf("replicas %d: %w", on.replicas(), err)
		}
		for _, c := range on.bench.Result.Crashes {
			over := c.Samples.Median() - time.Duration(float64(c.TTL)*(1+leader.DefaultClockDrift))
			l.report.durations(fmt.Sprintf("crash failover, R%d file, TTL %v", on.replicas(), c.TTL), c.Samples,
				fmt.Sprintf("TTL × 1.1 %+.1f ms", ms(over)), &verdict{"p50 ≤ TTL × 1.1 + 10 ms", over <= 10*time.Millisecond})
		}
	}
	return nil
}

func measureSteady(l *lab) error {
	if err := measure.Traffic(l.one.bench); err != nil {
		return err
	}
	t := l.one.bench.Result.Traffic
	in, out := t.In*t.Heartbeat.Seconds(), t.Out*t.Heartbeat.Seconds()
	// Each of them reads the control record twice a minute. Followers that
	// polled would send more than a message each.
	l.report.add(figure{Name: "1 leader, 10 followers: messages to the server per renewal", Value: in}, &verdict{"1 write, no polling", in <= 2})
	l.report.add(figure{Name: "1 leader, 10 followers: messages from the server per renewal", Value: out}, nil)
	return nil
}

func measureThousand(l *lab) error {
	n := l.N(1000, 100)
	if err := measure.Crowds(l.one.bench, figures.Crowd{Elections: n, TTL: 3 * time.Second}); err != nil {
		return err
	}
	for _, c := range l.one.bench.Result.Crowds {
		for _, side := range []struct {
			name string
			figures.Cost
		}{{"leader", c.Leading}, {"follower", c.Following}} {
			// perProcess is how many goroutines a process has once, whatever
			// its elections: those for its connections and the runtime.
			const perProcess = 10
			name := fmt.Sprintf("%d elections, %s side: ", n, side.name)
			l.report.add(figure{Name: name + "heap each", Unit: "B", Value: side.Heap}, &verdict{"≤ 16 KiB", side.Heap <= 16<<10})
			l.report.add(figure{Name: name + "goroutines each", Value: side.Goroutines}, &verdict{"≤ 2", side.Goroutines <= 2+perProcess/float64(n)})
			l.report.add(figure{Name: name + "of one processor", Unit: "%", Value: 100 * side.CPU}, nil)
		}
	}
	return nil
}

func measureHerd(l *lab) error {
	if err := measure.Herds(l.one.bench); err != nil {
		return err
	}
	for _, h := range l.one.bench.Result.Herds {
		for _, c := range []struct {
			what string
			figures.Succession
		}{{"handover", h.Left}, {"crash, from the last renewal", h.Died}} {
			name := fmt.Sprintf("%d candidates, %s", h.Candidates, c.what)
			l.report.add(figure{Name: name + ": claims (p99: most)", N: len(c.Claims), Value: float64(c.MedianClaims()), P99: float64(c.MaxClaims())}, nil)
			l.report.durations(name, c.Took, "", nil)
		}
	}
	return nil
}
