package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A crew is a store, a transport, and what runs on them, in virtual time.
type crew struct {
	t     *testing.T
	st    *tasks.Memory
	link  *wires
	terms uint64
	all   sync.WaitGroup
}

// inVirtualTime runs a test on a crew, all of which ends with it.
func inVirtualTime(t *testing.T, f func(t *testing.T, c *crew)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crew{t: t, st: tasks.NewMemory(), link: &wires{}}
		t.Cleanup(c.all.Wait) // the last one
		f(t, c)
	})
}

// lead has a dispatcher begin the next term, until end is called.
func (c *crew) lead(opts tasks.DispatcherOptions) (term leader.Term, end func()) {
	c.terms++
	term = leader.Term{Number: c.terms, Token: fmt.Sprint("token-", c.terms)}
	ctx, cancel := context.WithCancel(c.t.Context())
	opts.Group = "g"
	d := tasks.NewDispatcher(c.st, opts, c.link)
	c.all.Go(func() {
		if err := d.Lead(ctx, term); err != nil {
			c.t.Errorf("term %d: %v", term.Number, err)
		}
	})
	end = sync.OnceFunc(func() { cancel(); synctest.Wait() })
	c.t.Cleanup(end)
	return term, end
}

// work starts a worker, until end is called.
func (c *crew) work(name string, h tasks.Handler, opts tasks.WorkerOptions) (end func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	opts.Group, opts.Name = "g", name
	w := tasks.NewWorker(c.link, h, opts)
	c.all.Go(func() {
		if err := w.Run(ctx); err != nil {
			c.t.Errorf("worker %s: %v", name, err)
		}
	})
	c.t.Cleanup(cancel)
	synctest.Wait()
	return cancel
}

func (c *crew) submit(s tasks.Spec) {
	c.t.Helper()
	if _, err := tasks.Submit(c.t.Context(), c.st, s); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

// finished waits until a task has ended.
func (c *crew) finished(id string, want tasks.State) tasks.Status {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Hour)
	defer cancel()
	s, err := tasks.Wait(ctx, c.st, id)
	if err != nil || s.State != want {
		c.t.Fatalf("task %s: %+v, %v; want it %s", id, s, err, want)
	}
	return s
}

// cause waits for why a handler's context has ended.
func (c *crew) cause(causes <-chan error) error {
	c.t.Helper()
	select {
	case err := <-causes:
		return err
	case <-time.After(time.Hour):
		c.t.Fatal("no handler's context has ended")
		return nil
	}
}

// wires is a transport that can be cut.
type wires struct {
	tasks.Local

	mu  sync.Mutex
	cut map[string]bool // workers
}

func (w *wires) cutOff(worker string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = map[string]bool{}
	}
	w.cut[worker] = cut
}

func (w *wires) isCut(worker string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[worker]
}

// Join implements tasks.Link.
func (w *wires) Join(ctx context.Context, group, worker string, hear func(wire.ToWorker)) (tasks.Seat, error) {
	s, err := w.Local.Join(ctx, group, worker, func(m wire.ToWorker) {
		if !w.isCut(worker) {
			hear(m)
		}
	})
	return cuttable{s, w, worker}, err
}

type cuttable struct {
	tasks.Seat

	w      *wires
	worker string
}

// Say implements tasks.Seat.
func (c cuttable) Say(m wire.FromWorker) {
	if !c.w.isCut(c.worker) {
		c.Seat.Say(m)
	}
}

// echo is a handler.
func echo(_ context.Context, t tasks.Task) ([]byte, error) { return t.Payload, nil }

// A log is what handlers have done.
type log struct {
	mu   sync.Mutex
	done []string
}

func (l *log) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, s)
}

func (l *log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.done)
}

// by is a handler that notes who ran what.
func (l *log) by(name string) tasks.Handler {
	return func(_ context.Context, t tasks.Task) ([]byte, error) {
		l.add(name + ":" + t.ID)
		return nil, nil
	}
}

func TestATaskIsRunAndItsResultRecorded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		c.submit(tasks.Spec{ID: "early", Payload: []byte("before anybody is there")})
		term, _ := c.lead(tasks.DispatcherOptions{})
		c.work("w", func(_ context.Context, task tasks.Task) ([]byte, error) {
			if task.Term != term || task.Attempt != 1 {
				t.Errorf("task %+v in term %v", task, term)
			}
			return task.Payload, nil
		}, tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "late", Payload: []byte("while all run")})
		for id, want := range map[string]string{"early": "before anybody is there", "late": "while all run"} {
			if s := c.finished(id, tasks.Done); string(s.Result) != want || s.Term != term.Number || s.Worker != "w" {
				t.Errorf("%s: %+v", id, s)
			}
		}
	})
}

func TestSubmitIsIdempotentByID(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		c.lead(tasks.DispatcherOptions{})
		c.work("w", l.by("w"), tasks.WorkerOptions{})
		s := tasks.Spec{ID: "a", Payload: []byte("p")}
		c.submit(s)
		c.finished("a", tasks.Done)
		again, err := tasks.Submit(t.Context(), c.st, s)
		if err != nil || again.State != tasks.Done {
			t.Errorf("submitted again: %+v, %v", again, err)
		}
		c.submit(tasks.Spec{ID: "b", To: tasks.Target{Worker: "nobody"}})
		for _, other := range []tasks.Spec{{ID: "b", To: tasks.Target{Worker: "w"}}, {ID: "b", To: tasks.Target{Worker: "nobody"}, Payload: []byte("x")}} {
			if _, err := tasks.Submit(t.Context(), c.st, other); !errors.Is(err, tasks.ErrExists) {
				t.Errorf("another task of that ID: %v", err)
			}
		}
		// A cancelled task still has its payload, and a different task under
		// its ID is not stored.
		if _, err := tasks.Cancel(t.Context(), c.st, "b", "not needed"); err != nil {
			t.Fatal(err)
		}
		nobody := tasks.Spec{ID: "b", To: tasks.Target{Worker: "nobody"}}
		if again, err := tasks.Submit(t.Context(), c.st, nobody); err != nil || again.State != tasks.Failed {
			t.Errorf("submitted again: %+v, %v", again, err)
		}
		nobody.Payload = []byte("x")
		if _, err := tasks.Submit(t.Context(), c.st, nobody); !errors.Is(err, tasks.ErrExists) {
			t.Errorf("another task of the ID of one that has failed: %v", err)
		}
		if got := l.lines(); len(got) != 1 {
			t.Errorf("run: %v", got)
		}
	})
}

func TestAFailureIsRepeatedAfterAPauseThatDoublesUntilMaxAttempts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var at []time.Duration
		begun := time.Now()
		c.lead(tasks.DispatcherOptions{})
		c.work("w", func(context.Context, tasks.Task) ([]byte, error) {
			at = append(at, time.Since(begun))
			return nil, errors.New("no luck")
		}, tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "a", MaxAttempts: 4, Backoff: time.Second})
		s := c.finished("a", tasks.Failed)
		if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		if s.Error != "no luck" || s.Failures != 4 || s.Attempt != 4 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAPermanentErrorIsNotRepeatedAndAPanicIsAnError(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		c.lead(tasks.DispatcherOptions{})
		c.work("w", func(_ context.Context, task tasks.Task) ([]byte, error) {
			switch task.ID {
			case "permanent":
				return nil, tasks.Permanent(errors.New("never"))
			case "large":
				return make([]byte, tasks.MaxPayload+1), nil
			case "exits":
				runtime.Goexit()
			}
			panic("ouch")
		}, tasks.WorkerOptions{})
		for id, want := range map[string]int{"permanent": 1, "large": 1, "panics": 2, "exits": 2} {
			c.submit(tasks.Spec{ID: id, MaxAttempts: 2})
			if s := c.finished(id, tasks.Failed); s.Attempt != want || s.Error == "" {
				t.Errorf("%s: %+v", id, s)
			}
		}
	})
}

func TestAnAttemptThatHasHadItsTimeIsGivenToAnother(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		stuck, causes := make(chan struct{}), make(chan error, 1)
		defer close(stuck)
		c.lead(tasks.DispatcherOptions{Grace: time.Second})
		// The first ignores the end of its context; its room is not given away.
		c.work("a", func(ctx context.Context, _ tasks.Task) ([]byte, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			<-stuck
			return nil, nil
		}, tasks.WorkerOptions{})
		begun := time.Now()
		c.submit(tasks.Spec{ID: "x", Timeout: 10 * time.Second, Backoff: -1})
		endB := c.work("b", echo, tasks.WorkerOptions{})
		if s := c.finished("x", tasks.Done); s.Worker != "b" || s.Attempt != 2 {
			t.Errorf("%+v", s)
		}
		if took := time.Since(begun); took < 11*time.Second || took > 13*time.Second {
			t.Errorf("after %v", took)
		}
		if err := c.cause(causes); !errors.Is(err, tasks.ErrDeadline) {
			t.Errorf("the handler's context ended for %v", err)
		}
		endB()
		synctest.Wait()
		c.submit(tasks.Spec{ID: "y"})
		time.Sleep(time.Minute)
		if s, err := tasks.Look(t.Context(), c.st, "y"); err != nil || s.Attempt != 0 {
			t.Errorf("a worker whose only room is taken was given a task: %+v, %v", s, err)
		}
	})
}

func TestTheTasksOfASilentWorkerAreGivenToOthersAndItsReportCountsNoMore(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		c.lead(tasks.DispatcherOptions{})
		causes := make(chan error, 1)
		c.work("a", func(ctx context.Context, _ tasks.Task) ([]byte, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return []byte("late"), nil
		}, tasks.WorkerOptions{Lease: 3 * time.Second})
		c.submit(tasks.Spec{ID: "x", Backoff: -1})
		c.link.cutOff("a", true)
		c.work("b", func(_ context.Context, _ tasks.Task) ([]byte, error) { return []byte("b"), nil }, tasks.WorkerOptions{})
		begun := time.Now()
		if s := c.finished("x", tasks.Done); string(s.Result) != "b" {
			t.Errorf("%+v", s)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("after %v", took)
		}
		c.link.cutOff("a", false)
		if err := c.cause(causes); !errors.Is(err, tasks.ErrRevoked) {
			t.Errorf("the handler's context ended for %v", err)
		}
		time.Sleep(10 * time.Second)
		if s := c.finished("x", tasks.Done); string(s.Result) != "b" {
			t.Errorf("what was recorded has changed: %+v", s)
		}
	})
}

func TestAWorkerThatEndsDrainsAndIsGivenNoMore(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		c.lead(tasks.DispatcherOptions{})
		slow := func(ctx context.Context, task tasks.Task) ([]byte, error) {
			time.Sleep(2 * time.Second)
			l.add("a:" + task.ID)
			return nil, ctx.Err()
		}
		end := c.work("a", slow, tasks.WorkerOptions{Capacity: 2})
		c.submit(tasks.Spec{ID: "one"})
		end()
		synctest.Wait()
		c.submit(tasks.Spec{ID: "two"})
		c.finished("one", tasks.Done)
		c.work("b", l.by("b"), tasks.WorkerOptions{})
		c.finished("two", tasks.Done)
		if got := l.lines(); !slices.Equal(got, []string{"a:one", "b:two"}) {
			t.Errorf("%v", got)
		}
	})
}

func TestAWorkerThatIsNotPatientGivesItsTasksBackAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		c.lead(tasks.DispatcherOptions{})
		causes := make(chan error, 1)
		end := c.work("a", func(ctx context.Context, _ tasks.Task) ([]byte, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}, tasks.WorkerOptions{DrainTimeout: -1})
		c.submit(tasks.Spec{ID: "x", Backoff: -1})
		begun := time.Now()
		end()
		synctest.Wait()
		c.work("b", echo, tasks.WorkerOptions{})
		c.finished("x", tasks.Done)
		if took := time.Since(begun); took > 2*time.Second { // Wait looks once a second
			t.Errorf("after %v", took)
		}
		if err := c.cause(causes); !errors.Is(err, tasks.ErrLeaving) {
			t.Errorf("the handler's context ended for %v", err)
		}
	})
}

func TestTargetsAreKept(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		c.lead(tasks.DispatcherOptions{})
		for _, name := range []string{"a", "b", "c"} {
			c.work(name, l.by(name), tasks.WorkerOptions{Capacity: 4, Labels: map[string][]string{"b": {"gpu"}, "c": {"gpu"}}[name]})
		}
		keys := map[string]string{}
		for i := range 60 {
			id := fmt.Sprint(i)
			switch i % 3 {
			case 0:
				c.submit(tasks.Spec{ID: id, To: tasks.Target{Worker: "a"}})
			case 1:
				c.submit(tasks.Spec{ID: id, To: tasks.Target{Label: "gpu"}})
			case 2:
				c.submit(tasks.Spec{ID: id, To: tasks.Target{Key: fmt.Sprint("k", i%7)}})
			}
		}
		for i := range 60 {
			s := c.finished(fmt.Sprint(i), tasks.Done)
			key := fmt.Sprint("k", i%7)
			switch {
			case i%3 == 0 && s.Worker != "a", i%3 == 1 && s.Worker == "a":
				t.Errorf("task %d was run by %s", i, s.Worker)
			case i%3 == 2 && keys[key] != "" && keys[key] != s.Worker:
				t.Errorf("key %s was at %s and %s", key, keys[key], s.Worker)
			case i%3 == 2:
				keys[key] = s.Worker
			}
		}
	})
}

func TestAKeyMovesWhenItsWorkerGoes(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		c.lead(tasks.DispatcherOptions{})
		ends := map[string]func(){}
		for _, name := range []string{"a", "b", "c"} {
			ends[name] = c.work(name, echo, tasks.WorkerOptions{})
		}
		run := func(id string) string {
			c.submit(tasks.Spec{ID: id, To: tasks.Target{Key: "k"}})
			return c.finished(id, tasks.Done).Worker
		}
		first := run("1")
		ends[first]()
		synctest.Wait()
		if second := run("2"); second == first {
			t.Errorf("%s has gone and has the key", first)
		}
	})
}

func TestNoWorkerHasMoreThanItsCapacityAndTheWorkIsSpread(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		handler := func(name string) tasks.Handler {
			return func(context.Context, tasks.Task) ([]byte, error) {
				mu.Lock()
				running[name]++
				most[name] = max(most[name], running[name])
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				running[name]--
				return nil, nil
			}
		}
		c.lead(tasks.DispatcherOptions{})
		c.work("a", handler("a"), tasks.WorkerOptions{Capacity: 3})
		c.work("b", handler("b"), tasks.WorkerOptions{Capacity: 5})
		begun := time.Now()
		for i := range 40 {
			c.submit(tasks.Spec{ID: fmt.Sprint(i)})
		}
		for i := range 40 {
			c.finished(fmt.Sprint(i), tasks.Done)
		}
		if took := time.Since(begun); took > 7*time.Second || most["a"] != 3 || most["b"] != 5 {
			t.Errorf("%v at once, in %v", most, took)
		}
	})
}

func TestTheNextLeaderLeavesWithWorkersWhatTheyHaveAndGoesOn(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		_, end := c.lead(tasks.DispatcherOptions{})
		release := make(chan struct{})
		c.work("w", func(_ context.Context, task tasks.Task) ([]byte, error) {
			<-release
			l.add(task.ID)
			return []byte("once"), nil
		}, tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "running"})
		c.submit(tasks.Spec{ID: "waiting"})
		end()
		close(release) // the report finds nobody
		synctest.Wait()
		term, _ := c.lead(tasks.DispatcherOptions{})
		begun := time.Now()
		s := c.finished("running", tasks.Done)
		c.finished("waiting", tasks.Done)
		if s.Attempt != 1 || s.Term != term.Number || string(s.Result) != "once" {
			t.Errorf("%+v", s)
		}
		if got := l.lines(); !slices.Equal(got, []string{"running", "waiting"}) {
			t.Errorf("run: %v", got)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestTheNextLeaderGivesAwayWhatADeadWorkerHad(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		_, end := c.lead(tasks.DispatcherOptions{})
		c.work("a", func(ctx context.Context, _ tasks.Task) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }, tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "x"})
		c.link.cutOff("a", true)
		end()
		c.lead(tasks.DispatcherOptions{Lease: 2 * time.Second})
		c.work("b", echo, tasks.WorkerOptions{})
		begun := time.Now()
		if s := c.finished("x", tasks.Done); s.Worker != "b" {
			t.Errorf("%+v", s)
		}
		if took := time.Since(begun); took < 2*time.Second || took > 6*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// Messages of a deposed leader have no effect: neither its orders, nor its
// revocations and settlements.
func TestAWorkerObeysNothingOfAnOlderTerm(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		old, end := c.lead(tasks.DispatcherOptions{})
		release, revoked := make(chan struct{}), make(chan struct{})
		c.work("w", func(ctx context.Context, task tasks.Task) ([]byte, error) {
			select {
			case <-release:
			case <-ctx.Done():
				close(revoked)
			}
			l.add(task.ID)
			return nil, ctx.Err()
		}, tasks.WorkerOptions{Capacity: 2})
		end()
		said := make(chan wire.FromWorker, 100)
		late, err := c.link.Open(t.Context(), "g", func(m wire.FromWorker) { said <- m })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(late.Close)
		present, _ := c.lead(tasks.DispatcherOptions{})
		c.submit(tasks.Spec{ID: "x"})
		for name, m := range map[string]wire.ToWorker{
			"an older term":     {Term: wire.Term{Number: old.Number, Token: old.Token}},
			"the token of none": {Term: wire.Term{Number: old.Number + 1, Token: old.Token}},
		} {
			m.Orders = []wire.Order{{Ref: wire.Ref{ID: "y", Attempt: 1}, Timeout: time.Minute}}
			m.Revoked = []wire.Ref{{ID: "x", Attempt: 1}}
			m.Settled = m.Revoked
			for len(said) > 0 {
				<-said
			}
			late.Send("w", m)
			synctest.Wait()
			if m := <-said; len(m.Refused) != 1 || m.Refused[0].Why != wire.Stale || m.Seen != 2 || m.SeenToken != present.Token {
				t.Errorf("%s: the worker sends %+v", name, m)
			}
		}
		select {
		case <-revoked:
			t.Error("an older term has revoked a task")
		default:
		}
		close(release)
		if s := c.finished("x", tasks.Done); s.Attempt != 1 {
			t.Errorf("%+v", s)
		}
		if got := l.lines(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("run: %v", got)
		}
	})
}

// A handler takes its time to clean up. Others begin its task when it has
// returned, and not when the leader has missed the worker for a lease.
func TestATaskIsGivenToNobodyWhileAWorkerThatEndsIsAtIt(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		c.lead(tasks.DispatcherOptions{})
		end := c.work("a", func(ctx context.Context, task tasks.Task) ([]byte, error) {
			<-ctx.Done()
			time.Sleep(10 * tasks.DefaultLease)
			l.add("a:" + task.ID)
			return nil, ctx.Err()
		}, tasks.WorkerOptions{DrainTimeout: time.Second})
		c.submit(tasks.Spec{ID: "x", Backoff: -1, Timeout: time.Hour})
		c.work("b", l.by("b"), tasks.WorkerOptions{})
		end()
		c.finished("x", tasks.Done)
		if got := l.lines(); !slices.Equal(got, []string{"a:x", "b:x"}) {
			t.Errorf("%v", got)
		}
	})
}

// Each part arrives by itself.
func TestEachPartOfALongMessageHasItsTermAndItsSender(t *testing.T) {
	down := wire.ToWorker{Term: wire.Term{Number: 7, Token: "t"}, Run: "r", Orders: make([]wire.Order, 20), Settled: make([]wire.Ref, 30), Revoked: make([]wire.Ref, 40)}
	up := wire.FromWorker{Worker: "w", Run: "r", Seen: 7, SeenToken: "t", Reports: make([]wire.Report, 20)}
	for i := range down.Orders {
		down.Orders[i].Payload, up.Reports[i].Result = make([]byte, tasks.MaxPayload), make([]byte, tasks.MaxPayload)
	}
	orders, settled, revoked, reports := 0, 0, 0, 0
	for _, m := range tasks.Split(down) {
		orders, settled, revoked = orders+len(m.Orders), settled+len(m.Settled), revoked+len(m.Revoked)
		if m.Orders, m.Settled, m.Revoked = nil, nil, nil; !reflect.DeepEqual(m, wire.ToWorker{Term: down.Term, Run: "r"}) {
			t.Errorf("a part for a worker: %+v", m)
		}
	}
	for _, m := range tasks.SplitReports(up) {
		reports += len(m.Reports)
		if m.Reports = nil; !reflect.DeepEqual(m, wire.FromWorker{Worker: "w", Run: "r", Seen: 7, SeenToken: "t"}) {
			t.Errorf("a part of a worker's: %+v", m)
		}
	}
	if orders != 20 || settled != 30 || revoked != 40 || reports != 20 || len(tasks.Split(down)) < 2 || len(tasks.SplitReports(up)) < 2 {
		t.Errorf("%d orders, %d settled, %d revoked and %d reports in all", orders, settled, revoked, reports)
	}
}

// A message that a NATS server does not take is lost each time that it is
// repeated.
func TestEachPartOfALongMessageFitsIntoOneOfNATS(t *testing.T) {
	var up wire.FromWorker
	var down wire.ToWorker
	for i := range tasks.MaxCapacity {
		ref := wire.Ref{ID: fmt.Sprintf("%0*d", tasks.MaxName, i), Attempt: 9}
		up.Reports = append(up.Reports, wire.Report{Ref: ref, Error: strings.Repeat("<", 1<<10)})
		down.Settled, down.Revoked = append(down.Settled, ref), append(down.Revoked, ref)
		down.Orders = append(down.Orders, wire.Order{Ref: ref, Payload: make([]byte, i), Timeout: tasks.MaxTimeout})
	}
	up.Presence = &wire.Presence{Held: down.Settled, Capacity: tasks.MaxCapacity, Lease: time.Hour}
	for i, m := range tasks.SplitReports(up) {
		fits(t, fmt.Sprint("of a worker's, part ", i), m)
	}
	for i, m := range tasks.Split(down) {
		fits(t, fmt.Sprint("of a leader's, part ", i), m)
	}
}

// fits demands that a message is no longer than a server takes by default.
func fits(t *testing.T, what string, m any) {
	t.Helper()
	if data, err := json.Marshal(m); err != nil || len(data) > 1<<20 {
		t.Errorf("%s: %d bytes, %v", what, len(data), err)
	}
}

// A leader that has not heard that another leads leaves alone what its
// successor has written, and gives its successor's workers nothing.
func TestADeposedLeaderLeavesTheTasksToItsSuccessor(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		c.lead(tasks.DispatcherOptions{})
		second, _ := c.lead(tasks.DispatcherOptions{})
		c.work("w", func(_ context.Context, task tasks.Task) ([]byte, error) {
			l.add(fmt.Sprint(task.Term.Number))
			return nil, nil
		}, tasks.WorkerOptions{Capacity: 4})
		for i := range 20 {
			c.submit(tasks.Spec{ID: fmt.Sprint(i)})
		}
		for i := range 20 {
			if s := c.finished(fmt.Sprint(i), tasks.Done); i > 0 && s.Term != second.Number {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A term that nobody has won is the number of a record, and stops nobody. The
// record is left to people.
func TestRecordOfANewerTermIsParkedUntilItIsCancelled(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		poison := wire.Record{State: tasks.Queued, Timeout: time.Second, MaxAttempts: 1, Term: 1<<53 - 1}
		c.st.Write(tasks.Write{ID: "poison", Record: poison}, func(uint64, error) {})
		var y tally
		for range 2 {
			_, end := c.lead(tasks.DispatcherOptions{Hooks: y.hooks()})
			endWork := c.work("w", echo, tasks.WorkerOptions{})
			id := fmt.Sprint("honest", c.terms)
			c.submit(tasks.Spec{ID: id})
			c.finished(id, tasks.Done)
			time.Sleep(2 * time.Second)
			if _, _, _, stats := y.told(); stats != (tasks.Stats{Term: c.terms, Parked: 1, Workers: 1}) {
				t.Errorf("%+v", stats)
			}
			if e, err := c.st.Read(t.Context(), "poison"); err != nil || !reflect.DeepEqual(e.Record, poison) {
				t.Errorf("%+v, %v", e, err)
			}
			if c.terms == 2 {
				if _, err := tasks.Cancel(t.Context(), c.st, "poison", "forged"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if _, _, _, stats := y.told(); stats.Parked != 0 {
					t.Errorf("after its cancellation: %+v", stats)
				}
			}
			endWork()
			end()
		}
	})
}

// A term that is stated in a message which is not valid does not count.
func TestWorkerDropsAnInvalidMessageOfALeader(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		forger, err := c.link.Open(t.Context(), "g", func(wire.FromWorker) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(forger.Close)
		c.work("w", echo, tasks.WorkerOptions{})
		term := wire.Term{Number: 1 << 60, Token: "x"}
		for _, m := range []wire.ToWorker{
			{Term: term, Orders: []wire.Order{{Ref: wire.Ref{ID: "x", Attempt: 1}, Timeout: -1}}}, {Term: term, Settled: []wire.Ref{{ID: "../x", Attempt: 1}}},
		} {
			forger.Send("w", m)
		}
		synctest.Wait()
		c.lead(tasks.DispatcherOptions{})
		c.submit(tasks.Spec{ID: "honest"})
		c.finished("honest", tasks.Done)
	})
}

// The remedy where a group's terms start again: another bucket, and workers
// that have started after the last of them that knew the larger numbers has
// gone.
func TestNewWorkersObeyAfterTheTermsRestart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var l log
		c.terms = 1 << 50
		_, end := c.lead(tasks.DispatcherOptions{})
		gone := c.work("w", l.by("old"), tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "x"})
		c.finished("x", tasks.Done)
		end()

		c.terms, c.st = 0, tasks.NewMemory()
		c.lead(tasks.DispatcherOptions{})
		c.submit(tasks.Spec{ID: "y"})
		time.Sleep(time.Minute)
		if s, err := tasks.Look(t.Context(), c.st, "y"); err != nil || s.State != tasks.Queued {
			t.Errorf("%+v, %v: a worker that has seen larger numbers obeys", s, err)
		}
		gone()
		c.work("w", l.by("new"), tasks.WorkerOptions{})
		if s := c.finished("y", tasks.Done); s.Term != 1 || !slices.Equal(l.lines(), []string{"old:x", "new:y"}) {
			t.Errorf("%+v, %v", s, l.lines())
		}
	})
}

// After a store has lost its records two leaders may have one number. The
// leader that a worker does not obey reports it, once, and gives it nothing.
func TestALeaderWarnsOfAWorkerThatObeysAnotherOfItsNumber(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		term, _ := c.lead(tasks.DispatcherOptions{})
		c.work("w", echo, tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "a"})
		c.finished("a", tasks.Done)
		var said strings.Builder
		lost := tasks.NewMemory()
		other := tasks.NewDispatcher(lost, tasks.DispatcherOptions{Group: "g", Logger: slog.New(slog.NewTextHandler(&said, nil))}, c.link)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c.all.Go(func() {
			if err := other.Lead(ctx, leader.Term{Number: term.Number, Token: "another"}); err != nil {
				t.Error(err)
			}
		})
		if _, err := tasks.Submit(ctx, lost, tasks.Spec{ID: "b"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.HasSuffix(got, "group=g term=1 worker=w\n") {
			t.Errorf("said %q", got)
		}
		if s, err := tasks.Look(ctx, lost, "b"); err != nil || s.State != tasks.Queued || s.Attempt != 0 {
			t.Errorf("%+v, %v", s, err)
		}
		c.submit(tasks.Spec{ID: "c"})
		c.finished("c", tasks.Done)
	})
}

func TestACancelledTaskIsRevoked(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		c.lead(tasks.DispatcherOptions{})
		causes := make(chan error, 1)
		c.work("w", func(ctx context.Context, _ tasks.Task) ([]byte, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, nil
		}, tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "x"})
		s, err := tasks.Cancel(t.Context(), c.st, "x", "not wanted")
		if err != nil || s.State != tasks.Failed || s.Error != "not wanted" {
			t.Errorf("%+v, %v", s, err)
		}
		if err := c.cause(causes); !errors.Is(err, tasks.ErrRevoked) {
			t.Errorf("the handler's context ended for %v", err)
		}
		synctest.Wait()
		c.finished("x", tasks.Failed)
		if _, err := tasks.Cancel(t.Context(), c.st, "x", "again"); !errors.Is(err, tasks.ErrFinished) {
			t.Errorf("cancelled twice: %v", err)
		}
		if _, err := tasks.Cancel(t.Context(), c.st, "none", ""); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("no task was cancelled: %v", err)
		}
	})
}

// A longer one would be written, refused for its length and written again.
func TestTheReasonOfACancellationIsBounded(t *testing.T) {
	st := tasks.NewMemory()
	if _, err := tasks.Submit(t.Context(), st, tasks.Spec{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	why := strings.Repeat("\xff", 2<<20)
	s, err := tasks.Cancel(t.Context(), st, "x", why)
	if err != nil || s.Error == "" || len(s.Error) > 1<<10 || !utf8.ValidString(s.Error) {
		t.Errorf("%d bytes, %v", len(s.Error), err)
	}
	if again, err := tasks.Cancel(t.Context(), st, "x", why); err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("%v: its own cancellation was not known again", err)
	}
}

func TestEveryWrongSettingIsNamed(t *testing.T) {
	name := strings.Repeat("x", tasks.MaxName+1)
	_, err := tasks.Submit(t.Context(), tasks.NewMemory(), tasks.Spec{
		ID: "a.b", Payload: make([]byte, tasks.MaxPayload+1), Timeout: -1, MaxAttempts: -1, Backoff: tasks.MaxTimeout + 1, To: tasks.Target{Worker: "?", Label: name, Key: name},
	})
	demand(t, err, "ID", "Payload", "Timeout", "Backoff", "MaxAttempts", "To.Worker", "To.Label", "To.Key")
	w := tasks.NewWorker(nil, nil, tasks.WorkerOptions{Group: ".", Name: name, Labels: make([]string, tasks.MaxLabels+1), Capacity: -1, Lease: -1})
	demand(t, w.Run(t.Context()), "link", "Group", "Name", "65 labels", "label \"\"", "Capacity", "Lease")
	d := tasks.NewDispatcher(nil, tasks.DispatcherOptions{Lease: -1})
	demand(t, d.Lead(t.Context(), leader.Term{Number: 1, Token: "t"}), "Group", "store", "Lease")
	d = tasks.NewDispatcher(tasks.NewMemory(), tasks.DispatcherOptions{Group: "g"}, new(tasks.Local))
	demand(t, d.Lead(t.Context(), leader.Term{}), "term")
}

// The store would keep another key, and take the same task for another one.
func TestAKeyIsUTF8(t *testing.T) {
	_, err := tasks.Submit(t.Context(), tasks.NewMemory(), tasks.Spec{ID: "x", To: tasks.Target{Key: "\xff"}})
	demand(t, err, "To.Key")
}

func demand(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, tasks.ErrInvalid) {
		t.Errorf("%v is not ErrInvalid", err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
}

// A panicking store panics where it is asked to.
type panickingStore struct {
	*tasks.Memory

	where string
}

func (p panickingStore) Write(w tasks.Write, done func(uint64, error)) {
	if p.where == "write" && w.Record.Term > 0 {
		panic("ouch")
	}
	p.Memory.Write(w, done)
}

func (p panickingStore) Watch(ctx context.Context, w tasks.Watch) error {
	if p.where == "watch" {
		panic("ouch")
	}
	return p.Memory.Watch(ctx, w)
}

func TestAPanicOfTheCallersEndsTheTermOrTheWorkerAndNotTheProgram(t *testing.T) {
	for _, where := range []string{"write", "watch"} {
		inVirtualTime(t, func(t *testing.T, c *crew) {
			st := panickingStore{c.st, where}
			d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "g"}, c.link)
			led := make(chan error, 1)
			go func() { led <- d.Lead(t.Context(), leader.Term{Number: 1, Token: "t"}) }()
			c.work("w", echo, tasks.WorkerOptions{})
			c.submit(tasks.Spec{ID: "x"})
			if err := <-led; !errors.Is(err, tasks.ErrPanicked) {
				t.Errorf("%s: %v", where, err)
			}
		})
	}
	inVirtualTime(t, func(t *testing.T, c *crew) {
		c.lead(tasks.DispatcherOptions{})
		ran := make(chan error, 1)
		w := tasks.NewWorker(c.link, echo, tasks.WorkerOptions{Group: "g", Name: "w", Accepted: func(tasks.Task) { panic("ouch") }})
		go func() { ran <- w.Run(t.Context()) }()
		c.submit(tasks.Spec{ID: "x"})
		if err := <-ran; !errors.Is(err, tasks.ErrPanicked) {
			t.Errorf("%v", err)
		}
	})
}
