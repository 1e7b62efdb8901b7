package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A verdict is what a fire has shown.
type verdict struct {
	Tasks, Lost, Stale         int // Stale: accepted from a stale term
	Twice                      int // attempts that two workers accepted
	Accepted, Repeated         int // Repeated: tasks that were run more than once
	Kills, Freezes             int // of leaders
	WorkerKills, WorkerFreezes int // of teams
	Terms                      int
	Replayed                   int // messages of deposed leaders that came once more
	Refused                    int // orders that came after a newer term, by the journals
	Took                       time.Duration
}

// String says it for people.
func (v verdict) String() string {
	return fmt.Sprintf("%d tasks in %v, %d terms; leaders: %d killed, %d frozen; teams of workers: %d killed, %d frozen\n"+
		"lost: %d; accepted from a stale term: %d; attempts run by two workers: %d\n"+
		"attempts accepted: %d; tasks run more than once: %d; late messages of deposed leaders: %d; orders that came stale, and were refused: %d",
		v.Tasks, v.Took.Round(time.Millisecond), v.Terms, v.Kills, v.Freezes, v.WorkerKills, v.WorkerFreezes,
		v.Lost, v.Stale, v.Twice, v.Accepted, v.Repeated, v.Replayed, v.Refused)
}

// burn hands out n tasks under fire, and judges by the workers' journals.
func burn(ctx context.Context, o options, n int, out io.Writer) (v verdict, err error) {
	o.TTL, o.Capacity, o.Takes = 500*time.Millisecond, 8, 2*time.Millisecond
	l, err := newLab(ctx, o, io.Discard)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for range 3 {
		if err := l.candidate(); err != nil {
			return v, err
		}
	}
	for i := range 3 {
		if err := l.team(l.names(i)...); err != nil {
			return v, err
		}
	}
	v.Tasks = n
	begun := time.Now()
	late, err := l.record()
	if err != nil {
		return v, err
	}
	ctx, cancel := context.WithCancel(l.Ctx)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var mu sync.Mutex
	finished := map[string]tasks.State{}
	all.Go(func() {
		_ = l.follow(ctx, func(id string, s tasks.State) { mu.Lock(); finished[id] = s; mu.Unlock(); l.signal() })
	})
	submitted := make(chan error, 1)
	go func() { submitted <- l.feed(ctx, n) }()
	for done := false; !done; {
		select {
		case err := <-submitted:
			if err != nil {
				return v, err
			}
			done = true
		default:
			if err := l.fault(&v, late); err != nil {
				return v, err
			}
		}
	}
	err = l.Await("the last task", l.moved, func() bool { mu.Lock(); defer mu.Unlock(); return len(finished) >= n })
	v.Took = time.Since(begun)
	// The bucket may tell the end of a task before its worker's line is read.
	// Of a task that is lost there is none: the judge says so when this is
	// given up.
	_ = l.Await("the last lines of the journals", l.moved, func() bool { return l.returned() >= n })
	l.judge(&v, n)
	fmt.Fprintln(out, v)
	mu.Lock()
	defer mu.Unlock()
	for id, s := range finished {
		if s != tasks.Done {
			err = errors.Join(err, fmt.Errorf("%w: %s has %s", errLab, id, s))
		}
	}
	if v.Lost+v.Stale+v.Twice > 0 {
		err = errors.Join(err, fmt.Errorf("%w condemns: %d tasks lost, %d accepted from a stale term, %d attempts run by two", errLab, v.Lost, v.Stale, v.Twice))
	}
	return v, err
}

// names are those of a team.
func (l *lab) names(i int) []string { return []string{fmt.Sprintf("w%da", i), fmt.Sprintf("w%db", i)} }

// feed submits tasks over the whole time, of all kinds of target.
func (l *lab) feed(ctx context.Context, n int) error {
	const step = 100
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for from := 0; from < n; from += step {
		err := l.submit(from, min(from+step, n), func(i int) tasks.Spec {
			s := tasks.Spec{ID: fmt.Sprintf("f%06d", i), Payload: make([]byte, 64), MaxAttempts: 1000, Backoff: 5 * time.Millisecond, Timeout: 5 * time.Second}
			switch i % 4 {
			case 1:
				s.To.Key = fmt.Sprint("key", i%97)
			case 2:
				s.To.Label = fmt.Sprintf("lw%da", i%3)
			case 3:
				s.To.Worker = fmt.Sprintf("w%db", i%3)
			}
			return s
		})
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// delayed are messages of leaders, by their terms: those of one that is deposed
// come once more.
type delayed struct {
	mu     sync.Mutex
	orders map[uint64][]*nats.Msg
}

// record keeps some of the orders that go over the wire in each term.
func (l *lab) record() (*delayed, error) {
	d := &delayed{orders: map[uint64][]*nats.Msg{}}
	_, err := l.nc.Subscribe("leader-tasks.to.>", func(m *nats.Msg) {
		var w wire.ToWorker
		if json.Unmarshal(m.Data, &w) != nil || len(w.Orders) == 0 {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if term := w.Term.Number; len(d.orders[term]) < 50 {
			d.orders[term] = append(d.orders[term], m)
		}
	})
	return d, err
}

// replay sends once more what leaders of before a term have sent.
func (d *delayed) replay(nc *nats.Conn, before uint64) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for term, msgs := range d.orders {
		if term >= before {
			continue
		}
		for _, m := range msgs {
			if nc.Publish(m.Subject, m.Data) == nil {
				n++
			}
		}
		delete(d.orders, term)
	}
	return n
}

// fault is the next of the fire's, and the wait for who succeeds.
func (l *lab) fault(v *verdict, late *delayed) error {
	if err := l.succeed(0); err != nil {
		return err
	}
	p, n := l.leader(), v.Kills+v.Freezes+v.WorkerKills+v.WorkerFreezes
	switch n % 4 {
	case 0:
		v.Kills++
		l.candidates[p.ID].Kill()
		delete(l.candidates, p.ID)
		if err := l.candidate(); err != nil {
			return err
		}
	case 1:
		v.WorkerKills++
		names := l.names(rand.IntN(3))
		l.workers[names[0]].Kill()
		return errors.Join(l.team(names...), l.Pause(200*time.Millisecond))
	case 2:
		v.Freezes++
		if err := freeze(l.candidates[p.ID], func() error { return l.succeed(p.Term) }); err != nil {
			return err
		}
	case 3:
		v.WorkerFreezes++ // for longer than its lease
		return freeze(l.workers[l.names(rand.IntN(3))[0]], func() error { return l.Pause(workerLease * 3 / 2) })
	}
	if err := l.succeed(p.Term); err != nil {
		return err
	}
	if err := l.Pause(200 * time.Millisecond); err != nil {
		return err
	}
	v.Replayed += late.replay(l.nc, l.leader().Term)
	return nil
}

// freeze stops a process until f returns.
func freeze(c *harness.Child, f func() error) error {
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(f(), c.Signal(syscall.SIGCONT))
}

// returned returns how many tasks some handler has come to the end of, as far
// as the journals are read.
func (l *lab) returned() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := map[string]bool{}
	for _, h := range l.events {
		if h.What == "returned" {
			ids[h.ID] = true
		}
	}
	return len(ids)
}

// judge reads the journals.
func (l *lab) judge(v *verdict, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.Terms = l.terms
	type attempt struct {
		id string
		n  int
	}
	type run struct {
		worker string
		pid    int
	}
	by, newest := map[attempt]run{}, map[run]uint64{}
	returned := map[string]int{}
	for _, h := range l.events {
		r, a := run{h.Worker, h.Run}, attempt{h.ID, h.Attempt}
		switch h.What {
		case "stale":
			v.Refused++
		case "violation":
			v.Stale++
		case "accepted":
			v.Accepted++
			if h.Term < newest[r] {
				v.Stale++
			}
			newest[r] = max(newest[r], h.Term)
			if other, taken := by[a]; taken && other != r {
				v.Twice++
			}
			by[a] = r
		case "returned":
			returned[h.ID]++
			if returned[h.ID] == 2 {
				v.Repeated++
			}
		}
	}
	v.Lost = n - len(returned)
}
