package tasks_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A hub of anyone passes its dispatcher whatever the test sends, as a transport
// does whose messages come from anybody.
type anyonesHub struct {
	mu   sync.Mutex
	hear func(wire.FromWorker)
	sent []string // the receivers
}

func (h *anyonesHub) Open(_ context.Context, _ string, hear func(wire.FromWorker)) (tasks.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hear = hear
	return h, nil
}

func (h *anyonesHub) Send(worker string, _ wire.ToWorker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, worker)
}

func (*anyonesHub) Close() {}

// lead has a dispatcher lead with the hub, and lets all of it settle.
func (h *anyonesHub) lead(t *testing.T, st tasks.Store) (end func()) {
	t.Helper()
	return h.leadLogging(t, st, nil)
}

func (h *anyonesHub) leadLogging(t *testing.T, st tasks.Store, logger *slog.Logger) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "g", Logger: logger}, h)
	go func() { ended <- d.Lead(ctx, leader.Term{Number: 1, Token: "t"}) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A result that no store takes would be written, refused and written again for
// ever. Workers of this package send none.
func TestAReportThatNoStoreTakesIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, st := &anyonesHub{}, tasks.NewMemory()
		defer hub.lead(t, st)()
		if _, err := tasks.Submit(t.Context(), st, tasks.Spec{ID: "x"}); err != nil {
			t.Fatal(err)
		}
		hub.hear(wire.FromWorker{Worker: "w", Run: "r", Presence: &wire.Presence{Capacity: 1}})
		synctest.Wait()
		hub.hear(wire.FromWorker{Worker: "w", Run: "r", Reports: []wire.Report{{
			Ref: wire.Ref{ID: "x", Attempt: 1}, OK: true, Result: make([]byte, tasks.MaxPayload+1), Error: strings.Repeat("e", 1<<20),
		}}})
		synctest.Wait()
		s, err := tasks.Look(t.Context(), st, "x")
		if err != nil || s.State != tasks.Failed || len(s.Result) > 0 || len(s.Error) > 1<<10 || !strings.Contains(s.Error, "65537 bytes") {
			t.Errorf("%v, %.200q with %d bytes, %v", s.State, s.Error, len(s.Result), err)
		}
	})
}

// A name is a part of a subject: with a dot in it, or a line break where the
// client does not look, the leader would publish elsewhere, by its own rights.
func TestAWorkerWhoseNameIsNoneIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &anyonesHub{}
		defer hub.lead(t, tasks.NewMemory())()
		names := []string{"", "w.h", "w 0\r\n\r\nPUB x 0\r\n\r\n", "*", ">", strings.Repeat("w", tasks.MaxName+1)}
		for _, name := range append(names, "w") {
			hub.hear(wire.FromWorker{Worker: name, Run: "r", Reports: []wire.Report{{Ref: wire.Ref{ID: "x", Attempt: 1}}}})
		}
		synctest.Wait()
		hub.mu.Lock()
		defer hub.mu.Unlock()
		for _, name := range hub.sent {
			if name != "" && name != "w" {
				t.Errorf("answered %q", name)
			}
		}
		if !slices.Contains(hub.sent, "w") {
			t.Error("a worker was not answered")
		}
	})
}

// A stuckStore does not return from a leader's write before resume is closed.
type stuckStore struct {
	*tasks.Memory

	begun, resume chan struct{}
}

func (f *stuckStore) Write(w tasks.Write, done func(uint64, error)) {
	if w.Record.Term != 0 {
		f.begun <- struct{}{}
		<-f.resume
	}
	f.Memory.Write(w, done)
}

// Messages of workers must not fill the memory of a dispatcher that falls
// behind. Transports may lose messages, so the dispatcher drops some.
func TestMessagesThatWaitForADispatcherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		hub, st := &anyonesHub{}, &stuckStore{tasks.NewMemory(), make(chan struct{}, 10), make(chan struct{})}
		defer hub.leadLogging(t, st, slog.New(slog.NewTextHandler(&said, nil)))()
		if _, err := tasks.Submit(t.Context(), st, tasks.Spec{ID: "x"}); err != nil {
			t.Fatal(err)
		}
		hub.hear(wire.FromWorker{Worker: "w", Run: "r", Presence: &wire.Presence{Capacity: 1}})
		<-st.begun
		report := wire.Report{Ref: wire.Ref{ID: "y", Attempt: 1}, OK: true, Result: make([]byte, tasks.MaxPayload)}
		for i := range 2000 {
			hub.hear(wire.FromWorker{Worker: "v", Run: "r", Reports: []wire.Report{report}})
			if i == 500 && said.Len() > 0 {
				t.Errorf("33 MB are too much: %s", said.String())
			}
		}
		if !strings.Contains(said.String(), "is dropped") {
			t.Error("131 MB wait")
		}
		close(st.resume)
		synctest.Wait()
		hub.hear(wire.FromWorker{Worker: "w", Run: "r", Reports: []wire.Report{{Ref: wire.Ref{ID: "x", Attempt: 1}, OK: true}}})
		synctest.Wait()
		if s, err := tasks.Look(t.Context(), st, "x"); err != nil || s.State != tasks.Done {
			t.Errorf("%+v, %v: a later message is not heard", s, err)
		}
	})
}

// The election alone decides that a term has ended. A context that descends from
// the context of the term reports the end later.
func TestDispatcherStopsOnceTheElectionReportsThatItsTermIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, st := &anyonesHub{}, tasks.NewMemory()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		elected := &termContext{Context: ctx}
		ended := make(chan error, 1)
		d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "g"}, hub)
		go func() { ended <- d.Lead(elected, leader.Term{Number: 1, Token: "t"}) }()
		synctest.Wait()
		elected.over.Store(true)
		if _, err := tasks.Submit(t.Context(), st, tasks.Spec{ID: "x"}); err != nil {
			t.Fatal(err)
		}
		hub.hear(wire.FromWorker{Worker: "w", Run: "r", Presence: &wire.Presence{Capacity: 1}})
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("Lead goes on")
		}
		if s, err := tasks.Look(t.Context(), st, "x"); err != nil || s.State != tasks.Queued {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// A termContext reports the end of a term by Err before it closes Done, as the
// context of an election's term does.
type termContext struct {
	context.Context //nolint:containedctx // it is one

	over atomic.Bool
}

func (c *termContext) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// A curtain is a store at whose first write of a leader the term ends, and a
// message arrives.
type curtain struct {
	*tasks.Memory

	fall   func()
	writes atomic.Int64
}

func (c *curtain) Write(w tasks.Write, done func(uint64, error)) {
	if w.Record.Term != 0 && c.writes.Add(1) == 1 {
		c.fall()
	}
	c.Memory.Write(w, done)
}

// A dispatcher that finds work and the end of its term at once does nothing
// more, also in the middle of what it does.
func TestNothingIsDoneAfterTheEndOfATerm(t *testing.T) {
	for range 20 { // a select chooses by chance
		synctest.Test(t, func(t *testing.T) {
			hub := &anyonesHub{}
			st := &curtain{Memory: tasks.NewMemory()}
			ctx, cancel := context.WithCancel(t.Context())
			said := 0
			st.fall = func() {
				cancel()
				hub.mu.Lock()
				said = len(hub.sent)
				hub.mu.Unlock()
				hub.hear(wire.FromWorker{Worker: "other", Run: "r", Reports: []wire.Report{{Ref: wire.Ref{ID: "z", Attempt: 1}}}})
			}
			for _, id := range []string{"x", "y"} {
				if _, err := tasks.Submit(ctx, st, tasks.Spec{ID: id}); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan error, 1)
			d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "g"}, hub)
			go func() { ended <- d.Lead(ctx, leader.Term{Number: 1, Token: "t"}) }()
			synctest.Wait()
			hub.hear(wire.FromWorker{Worker: "w", Run: "r", Presence: &wire.Presence{Capacity: 2}})
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if n := st.writes.Load(); n != 1 || len(hub.sent) != said {
				t.Errorf("%d writes, %d messages after the end", n, len(hub.sent)-said)
			}
		})
	}
}
