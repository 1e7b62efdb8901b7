package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// bench measures, and prints.
func bench(ctx context.Context, o options, n int, out io.Writer) error {
	m := harness.ThisMachine()
	fmt.Fprintf(out, "%s, %d cores, %s · %s · load before %s · %d server(s) of NATS, files\n", m.CPU, m.Cores, m.OS, m.Go, m.Load, o.Servers)
	fast := o
	fast.Quiet = true
	if err := throughput(ctx, fast, n, out); err != nil {
		return err
	}
	if o.Throughput {
		return nil
	}
	if err := plain(ctx, fast, n, out); err != nil {
		return err
	}
	if err := batched(ctx, fast, out); err != nil {
		return err
	}
	if o.GRPC {
		if err := transport(ctx, fast, n, out); err != nil {
			return err
		}
	}
	return redelivery(ctx, o, out)
}

// throughput is how many tasks go through in a second, from the first
// submission to the acknowledgement of the last record. The leader reports the
// end, since an observer of the store would use the processors meanwhile; the
// store is asked when the time was taken.
func throughput(ctx context.Context, o options, n int, out io.Writer) error {
	o.Finish = n
	l, err := newLab(ctx, o, io.Discard)
	if err != nil {
		return err
	}
	defer func() { _ = l.close() }()
	if err := l.candidate(); err != nil {
		return err
	}
	if err := l.succeed(0); err != nil {
		return err
	}
	if err := l.team("w1", "w2", "w3", "w4"); err != nil {
		return err
	}
	before, told := l.used()
	begun := time.Now()
	spec := func(i int) tasks.Spec { return tasks.Spec{ID: taskID(i), Payload: make([]byte, 100)} }
	if err := l.submit(0, n, spec); err != nil {
		return err
	}
	submitted := time.Since(begun)
	if err := l.Await("the last task", l.moved, func() bool { _, ok := l.allEnded(); return ok }); err != nil {
		return err
	}
	end, _ := l.allEnded()
	after, _ := l.used()
	if err := l.stored(n); err != nil {
		return err
	}
	took := end.Sub(begun)
	rate := float64(n) / took.Seconds()
	over, target := "NATS", 5000.0
	if o.GRPC {
		over, target = "gRPC", 15000
	}
	fmt.Fprintf(out, "%d tasks over %s, stored in JetStream, in %v: %.0f a second, from the first submission to the last record (submitted in %v)  target %.0f: %s\n",
		n, over, took.Round(time.Millisecond), rate, submitted.Round(time.Millisecond), target, word(rate >= target))
	if told {
		fmt.Fprintf(out, "  %s\n", after.since(before, n))
	}
	return nil
}

// stored looks whether the store has n tasks as done.
func (l *lab) stored(n int) error {
	return harness.Each(n, submitters, func(i int) error {
		ctx, cancel := context.WithTimeout(l.Ctx, harness.Patience)
		defer cancel()
		s, err := tasks.Look(ctx, l.bucket, taskID(i))
		if err == nil && s.State != tasks.Done {
			err = fmt.Errorf("%w: the store has %s as %s", errLab, s.ID, s.State)
		}
		return err
	})
}

func taskID(i int) string { return fmt.Sprintf("b%06d", i) }

// redelivery is how long after a leader's crash its successor's first order is
// accepted.
func redelivery(ctx context.Context, o options, out io.Writer) error {
	l, err := newLab(ctx, o, io.Discard)
	if err != nil {
		return err
	}
	defer func() { _ = l.close() }()
	for range 2 {
		if err := l.candidate(); err != nil {
			return err
		}
	}
	if err := l.succeed(0); err != nil {
		return err
	}
	if err := l.team("w1", "w2"); err != nil {
		return err
	}
	var took, promoted harness.Samples
	next := 0
	spec := func(i int) tasks.Spec { return tasks.Spec{ID: fmt.Sprintf("r%06d", i)} }
	for range crashes {
		if err := l.submit(next, next+100, spec); err != nil {
			return err
		}
		next += 100
		p := l.leader()
		l.candidates[p.ID].Kill()
		killed := time.Now()
		delete(l.candidates, p.ID)
		// These wait for the successor.
		if err := l.submit(next, next+100, spec); err != nil {
			return err
		}
		next += 100
		var first happening
		if err := l.Await("an order of the next leader", l.moved, func() (ok bool) { first, ok = l.firstOf(p.Term); return ok }); err != nil {
			return err
		}
		took, promoted = append(took, first.At.Sub(killed)), append(promoted, l.leader().At.Sub(killed))
		if err := l.candidate(); err != nil {
			return err
		}
	}
	target := o.TTL*11/10 + 100*time.Millisecond
	fmt.Fprintf(out, "from the crash of a leader (TTL %v) to the first order of the next that is accepted: p50 %v, max %v of %d (to its promotion: p50 %v, max %v)  target %v: %s\n",
		o.TTL, took.Median().Round(time.Millisecond), took.Max().Round(time.Millisecond), len(took),
		promoted.Median().Round(time.Millisecond), promoted.Max().Round(time.Millisecond), target, word(took.Max() <= target))
	return nil
}

// crashes is how many leaders crash for the figure.
const crashes = 10

// firstOf returns the first order of a term after another that was accepted.
func (l *lab) firstOf(after uint64) (first happening, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.events {
		if h.What == "accepted" && h.Term > after {
			return h, true
		}
	}
	return first, false
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISS"
}

// transport is how many tasks go through in a second if they are stored in the
// leader's memory: what gRPC and the dispatcher cost without JetStream.
func transport(ctx context.Context, o options, n int, out io.Writer) error {
	l, err := newLab(ctx, o, io.Discard)
	if err != nil {
		return err
	}
	defer func() { _ = l.close() }()
	srv, address, stop, err := serveGRPC(ctx)
	if err != nil {
		return err
	}
	defer stop()
	st := tasks.NewMemory()
	ctx, cancel := context.WithCancel(l.Ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: group}, srv)
	all.Go(func() { _ = d.Lead(ctx, leader.Term{Number: 1, Token: "t"}) })
	var finished atomic.Int64
	all.Go(func() {
		_ = st.Watch(ctx, tasks.Watch{Present: func() {}, Deliver: func(e tasks.Entry) {
			if e.Record.State.Finished() && finished.Add(1) == int64(n) {
				l.signal()
			}
		}})
	})
	l.o.Address = address
	if err := l.team("w1", "w2", "w3", "w4"); err != nil {
		return err
	}
	if err := l.Await("four workers", nil, func() bool { return d.Stats().Workers == 4 }); err != nil {
		return err
	}
	begun := time.Now()
	for i := range n {
		if _, err := tasks.Submit(ctx, st, tasks.Spec{ID: fmt.Sprintf("m%06d", i), Payload: make([]byte, 100)}); err != nil {
			return err
		}
	}
	if err := l.Await("the last task", l.moved, func() bool { return finished.Load() >= int64(n) }); err != nil {
		return fmt.Errorf("%w: %d of %d are finished", err, finished.Load(), n)
	}
	took := time.Since(begun)
	rate := float64(n) / took.Seconds()
	fmt.Fprintf(out, "%d tasks over gRPC, stored in memory, in %v: %.0f a second  target 20000: %s\n", n, took.Round(time.Millisecond), rate, word(rate >= 20000))
	return nil
}
