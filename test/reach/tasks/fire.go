package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed-ff2cb582/leader/tasks"
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
	// Orders that came after a newer term: Late by themselves, Again since the
	// journal gave them once more. The worker Refused them as stale.
	Late, Again, Refused int
	Took                 time.Duration
}

// String formats it for people.
func (v verdict) String() string {
	return fmt.Sprintf("%d tasks in %v, %d terms; leaders: %d killed, %d frozen; teams of workers: %d killed, %d frozen\n"+
		"lost: %d; accepted from a stale term: %d; attempts run by two workers: %d\n"+
		"attempts accepted: %d; tasks run more than once: %d; orders that came after a newer term: %d late, %d given once more; refused as stale: %d",
		v.Tasks, v.Took.Round(time.Millisecond), v.Terms, v.Kills, v.Freezes, v.WorkerKills, v.WorkerFreezes,
		v.Lost, v.Stale, v.Twice, v.Accepted, v.Repeated, v.Late, v.Again, v.Refused)
}

// struck reports whether there was a fault of each kind.
func (v verdict) struck() bool { return min(v.Kills, v.Freezes, v.WorkerKills, v.WorkerFreezes) > 0 }

// err returns the violations, or an error that there was nothing to judge.
func (v verdict) err() (err error) {
	if v.Lost+v.Stale+v.Twice > 0 {
		err = fmt.Errorf("%w condemns: %d tasks lost, %d accepted from a stale term, %d attempts run by two", errLab, v.Lost, v.Stale, v.Twice)
	}
	for _, shown := range []struct {
		n    int
		what string
	}{
		{v.Kills, "leader was killed"},
		{v.Freezes, "leader was frozen"},
		{v.WorkerKills, "team of workers was killed"},
		{v.WorkerFreezes, "team of workers was frozen"},
		{v.Again, "order of a deposed leader was given once more"},
		{v.Refused, "order was refused as stale"},
	} {
		if shown.n == 0 {
			err = errors.Join(err, fmt.Errorf("%w has shown nothing: no %s", errLab, shown.what))
		}
	}
	return err
}

// burn hands out n tasks under fire, and more until each kind of fault has
// struck. It judges by the workers' journals.
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
	begun := time.Now()
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
	var enough atomic.Bool
	var fed int
	submitted := make(chan error, 1)
	go func() {
		var err error
		fed, err = l.feed(ctx, n, &enough)
		l.fed.Store(true)
		submitted <- err
	}()
	for done := false; !done; {
		select {
		case err := <-submitted:
			if err != nil {
				return v, err
			}
			v.Tasks, done = fed, true
		default:
			if err := l.fault(&v); err != nil {
				return v, err
			}
			enough.Store(v.struck())
		}
	}
	err = l.Await("the last task", l.moved, func() bool { mu.Lock(); defer mu.Unlock(); return len(finished) >= v.Tasks })
	v.Took = time.Since(begun)
	// The bucket may report the end of a task before its worker's line is read.
	// For a lost task there is no line: the judge reports the loss when this
	// wait is given up.
	_ = l.Await("the last lines of the journals", l.moved, func() bool { return l.returned() >= v.Tasks })
	l.judge(&v)
	fmt.Fprintln(out, v)
	mu.Lock()
	defer mu.Unlock()
	for id, s := range finished {
		if s != tasks.Done {
			err = errors.Join(err, fmt.Errorf("%w: %s has %s", errLab, id, s))
		}
	}
	return v, errors.Join(err, v.err())
}

// names are the names of a team.
func (l *lab) names(i int) []string { return []string{fmt.Sprintf("w%da", i), fmt.Sprintf("w%db", i)} }

// feed submits tasks over the whole time, of all kinds of target: n, and more
// until there is enough. It returns how many it has submitted.
func (l *lab) feed(ctx context.Context, n int, enough *atomic.Bool) (fed int, err error) {
	const step = 100
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for fed < n || !enough.Load() {
		to := fed + step
		if fed < n {
			to = min(to, n)
		}
		err := l.submit(fed, to, func(i int) tasks.Spec {
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
			return fed, err
		}
		fed = to
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fed, ctx.Err()
		}
	}
	return fed, nil
}

// fault is the next of the fire's, and the wait for who succeeds.
func (l *lab) fault(v *verdict) error {
	if err := l.succeed(0); err != nil {
		return err
	}
	switch n := v.Kills + v.Freezes + v.WorkerKills + v.WorkerFreezes; n % 4 {
	case 0:
		return l.depose(func(p promotion) error {
			v.Kills++
			l.candidates[p.ID].Kill()
			delete(l.candidates, p.ID)
			return errors.Join(l.candidate(), l.succeed(p.Term))
		})
	case 1:
		v.WorkerKills++
		names := l.names(rand.IntN(3))
		l.workers[names[0]].Kill()
		return errors.Join(l.team(names...), l.Pause(between))
	case 2:
		return l.depose(func(p promotion) error {
			v.Freezes++
			return freeze(l.candidates[p.ID], func() error { return l.succeed(p.Term) })
		})
	default:
		v.WorkerFreezes++ // for longer than its lease
		return freeze(l.workers[l.names(rand.IntN(3))[0]], func() error { return l.Pause(workerLease * 3 / 2) })
	}
}

// between is for how long a new leader or team works before the next fault.
const between = 200 * time.Millisecond

// depose has a leader succeeded by means of a fault. A worker has carried out
// an order of its before, and is given it once more afterwards: only then the
// fault shows something. When nothing more is submitted such an order may never
// come, and there is no fault.
func (l *lab) depose(fault func(promotion) error) error {
	var p promotion
	err := l.Await("an order of the leader's that is carried out and settled", l.moved, func() bool {
		p = l.leader()
		return l.fed.Load() || l.candidates[p.ID] != nil && l.noted("kept", p.Term)
	})
	if err != nil || l.fed.Load() {
		return err
	}
	if err := fault(p); err != nil {
		return err
	}
	what := fmt.Sprintf("a worker that is given an order of term %d once more, in a later one", p.Term)
	if err := l.Await(what, l.moved, func() bool { return l.noted("again", p.Term) }); err != nil {
		return err
	}
	what = fmt.Sprintf("the worker's answer to an order of term %d, in a later one", p.Term)
	if err := l.Await(what, l.moved, func() bool { return l.noted("refused", p.Term) || l.noted("violation", p.Term) }); err != nil {
		return err
	}
	return l.Pause(between)
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
func (l *lab) judge(v *verdict) {
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
			v.Late++
		case "again":
			v.Again++
		case "refused":
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
	v.Lost = v.Tasks - len(returned)
}
