package roles

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// manager returns a manager of some roles, none of which runs.
func manager(t *testing.T, ttl time.Duration, names ...string) *Manager {
	t.Helper()
	m := New(memstore.New(), Config{
		InstanceID: "a", TTL: ttl, HeartbeatInterval: time.Second, ConnectionTimeout: ttl / 4, Spread: true, Pace: 0.1,
		Log: slog.New(slog.DiscardHandler),
	})
	for _, name := range names {
		if err := m.Add(t.Context(), role(name, ttl)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = m.Stop(t.Context(), engine.StopOptions{}) })
	return m
}

func role(name string, ttl time.Duration) Role {
	return Role{Name: name, Config: engine.Config{Group: name, InstanceID: "a", TTL: ttl, HeartbeatInterval: ttl / 3, ConnectionTimeout: ttl / 4, DemoteTimeout: ttl, Loss: func(leadership.Term, machine.Reason) error { return context.Canceled }}, Register: func(*engine.Candidate) {}}
}

// An instance that has its fair share leaves a role to others, even one that it
// has led before. Only what it was named for it takes.
func TestAnInstanceWithItsShareLeavesAVacancyToOthers(t *testing.T) {
	m := manager(t, 3*time.Second, "one", "two")
	m.leading, m.others["b"] = 1, 1 // of two roles each has one
	s := m.candidacies["two"]
	vacancy := &machine.State{
		Phase: machine.Claiming,
		View:  machine.Seen{Kind: machine.Vacant, Rev: 6, Rec: machine.Record{Token: "b's", Reason: machine.ReasonResigned}},
	}
	if wait, room := s.Admit(vacancy); wait <= 0 || !room || s.hold != vacant {
		t.Errorf("waits for %v, room: %v, held: %v", wait, room, s.hold)
	}
	vacancy.View.Rec.Successor = "a"
	if wait, room := s.Admit(vacancy); wait != 0 || !room || s.hold != held {
		t.Errorf("named as the successor it waits for %v, room: %v, held: %v", wait, room, s.hold)
	}
}

// The last room is kept for a role that was asked for, as long as the request
// lasts, and from other roles alone: what an instance was named for it takes.
func TestTheLastRoomIsKeptAsLongAsTheRequestLasts(t *testing.T) {
	const ttl = 3 * time.Second
	free := machine.Seen{Kind: machine.Vacant, Rev: 6, Rec: machine.Record{Token: "b's", Reason: machine.ReasonResigned}}
	named := free
	named.Rec.Successor = "a"
	for name, c := range map[string]struct {
		bound, have int
		role        string
		view        machine.Seen
		left        time.Duration
		change      func(asked *candidacy)
		keeps       bool
	}{
		"the request is under way":      {bound: 2, have: 1, role: "one", view: free, left: ttl, keeps: true},
		"its time is over":              {bound: 2, have: 1, role: "one", view: free, left: 0},
		"there is more room":            {bound: 3, have: 1, role: "one", view: free, left: ttl},
		"there is no bound":             {bound: 0, have: 1, role: "one", view: free, left: ttl},
		"it is the role":                {bound: 2, have: 1, role: "asked", view: free, left: ttl},
		"it was named for this one":     {bound: 2, have: 1, role: "one", view: named, left: ttl},
		"the role is claimed":           {bound: 2, have: 0, role: "one", view: free, left: ttl, change: func(s *candidacy) { s.m.settle(s, held) }},
		"the role has a leader again":   {bound: 2, have: 1, role: "one", view: free, left: ttl, change: func(s *candidacy) { s.leader, s.term = "c", 9 }},
		"the role is vacant, and going": {bound: 2, have: 1, role: "one", view: free, left: ttl, change: func(s *candidacy) { s.going = true }},
	} {
		t.Run(name, func(t *testing.T) {
			m := manager(t, ttl, "one", "two", "three", "four", "asked")
			asked := m.candidacies["asked"]
			m.mu.Lock()
			m.cfg.MaxRoles = c.bound
			for _, role := range []string{"two", "three"}[:c.have] {
				m.settle(m.candidacies[role], held)
			}
			asked.leader, asked.term = "b", 5
			m.pull = &pull{s: asked, term: 5, until: time.Now().Add(c.left)}
			if c.change != nil {
				c.change(asked)
			}
			m.mu.Unlock()
			s := m.candidacies[c.role]
			wait, room := s.Admit(&machine.State{Phase: machine.Claiming, View: c.view})
			if keeps := wait > 0 && s.hold == vacant; keeps != c.keeps || !room || !keeps && s.hold != held {
				t.Errorf("waits for %v, room: %v, held: %v", wait, room, s.hold)
			}
		})
	}
}

// No more roles are asked for than there is room for: what is not answered
// counts for a TTL, also where it is another kind of request.
func TestNoMoreRolesAreAskedForThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		m := manager(t, ttl, "led", "one", "two", "three")
		led, one, two, three := m.candidacies["led"], m.candidacies["one"], m.candidacies["two"], m.candidacies["three"]
		do := func(f func()) {
			m.mu.Lock()
			defer m.mu.Unlock()
			f()
		}
		do(func() {
			m.settle(led, held)
			for _, s := range []*candidacy{one, two, three} {
				s.leader, s.term = "b", 5
			}
		})
		asks := func(s *candidacy, want bool, when string) {
			t.Helper()
			if got := s.Asks(5); got != want {
				t.Errorf("%s, %s may be asked for: %v", when, s.name, got)
			}
		}
		asks(one, true, "without a bound")
		asks(two, true, "without a bound")
		do(func() { one.asked, two.asked, m.cfg.MaxRoles = nil, nil, 3 })
		asks(one, true, "with room for two")
		asks(one, true, "asked for again")
		asks(two, true, "with room for one more")
		asks(three, false, "with none besides what was asked for")
		time.Sleep(ttl)
		asks(three, true, "when nothing was answered")
		do(func() { three.leader, three.term = "c", 9 })
		asks(two, true, "when a role has another leader")
		do(func() { m.settle(two, held); m.pull = &pull{s: three, term: 9, until: time.Now().Add(ttl)} })
		asks(one, false, "while a role is awaited from who leads more")
		do(func() { three.going = true })
		asks(one, true, "when that role is being removed")
		// Nor is a role asked for of who leads more, while one is awaited.
		do(func() {
			m.cfg.Spread, m.cfg.Pace, m.pull, m.others = true, 1, nil, map[string]int{"b": 9}
			one.waitUntil = time.Now().Add(ttl)
			m.candidacies["four"] = &candidacy{m: m, name: "four", leader: "b", term: 5}
			m.uneven, m.next = true, time.Time{}
			m.balance(time.Now())
			if m.pull != nil {
				t.Errorf("%s is asked for, beside what there is room for", m.pull.s.name)
			}
			m.pull = nil
			delete(m.candidacies, "four")
		})
		asks(three, false, "being removed itself")
		asks(two, false, "being ours")
	})
}

// The roles that an instance leads include its claims. If many roles fall
// vacant at once, it claims its share, and leaves the rest to others. When it
// then lost a claim it had room, but waited as long as instances that really
// had their share.
func TestALostClaimEndsTheWaitForOtherRoles(t *testing.T) {
	m := manager(t, 4*time.Second, "one", "two")
	one, two, now := m.candidacies["one"], m.candidacies["two"], time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.others["b"] = 1
	m.settle(one, held) // claimed
	wait := m.yield(two, now)
	m.settle(one, vacant) // lost
	if wait <= 0 || wait > 100*time.Millisecond || m.yield(two, now.Add(wait)) != 0 {
		t.Errorf("it waits for %v, and then for %v", wait, m.yield(two, now.Add(wait)))
	}
	m.settle(one, held)
	for now = now.Add(wait); wait > 0; now = now.Add(wait) {
		wait = m.yield(two, now)
	}
	if all := now.Sub(two.yielding); all != 500*time.Millisecond {
		t.Errorf("with its share it waits for %v", all)
	}
}

// A pace may be so small that the time between requests overflows. It must not
// make the manager ask without a pause.
func TestTheSmallestPaceIsTheSlowest(t *testing.T) {
	m := manager(t, 3*time.Second)
	m.cfg.Pace = 5e-324
	if d := m.interval(); d < engine.Forever/2 {
		t.Errorf("asks every %v", d)
	}
}

// A panic of the manager's own code in its goroutine ends neither the program
// nor the manager.
func TestAPanicOfTheManagersGoroutineHasASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, 3*time.Second)
		end := m.endHealth
		struck := false
		m.endHealth = func() {
			if !struck {
				struck = true
				panic("boom")
			}
			end()
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Stop(t.Context(), engine.StopOptions{WaitForDemote: true}); err != nil || !struck {
			t.Errorf("Stop: %v, struck: %v", err, struck)
		}
	})
}

// So has one that ends a manager which was stopped while it started.
func TestAPanicAfterAStartThatWasStoppedHasASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, 3*time.Second, "one")
		end, calls := m.endHealth, 0
		m.endHealth = func() {
			calls++
			if calls == 2 { // the first is of Stop itself
				panic("boom")
			}
			end()
		}
		if err := m.claimStart(); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- m.Stop(t.Context(), engine.StopOptions{WaitForDemote: true}) }()
		synctest.Wait()
		select {
		case err := <-stopped:
			t.Fatalf("Stop: %v, while it starts", err)
		default:
		}
		m.endStart()
		if err := <-stopped; err != nil || calls < 3 {
			t.Errorf("Stop: %v, after %d calls", err, calls)
		}
	})
}

// The call of Start returns while Stop asks the elections, before Stop ends the
// manager.
func TestManagerThatIsStoppedWhileItStartsEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, 3*time.Second)
		asked := role("one", 3*time.Second)
		asked.Config.Dispose = m.endStart
		if err := m.Add(t.Context(), asked); err != nil {
			t.Fatal(err)
		}
		var disposals atomic.Int32
		m.SetDispose(func() {
			disposals.Add(1)
			time.Sleep(time.Second)
		})
		if err := m.claimStart(); err != nil {
			t.Fatal(err)
		}
		if err := m.Stop(t.Context(), engine.StopOptions{WaitForDemote: true}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := disposals.Load(); n != 1 {
			t.Errorf("%d disposals", n)
		}
	})
}

// A rickety store panics when its connection is followed.
type rickety struct{ store.Store }

func (rickety) ConnState() store.ConnState { return store.Connected }

func (rickety) OnConnState(func(store.ConnState)) (stop func()) { panic("boom") }

func TestPanicOfTheStoreDoesNotEndSpreading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, 3*time.Second)
		m.store = rickety{m.store}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		m.step(func() {
			if !m.cfg.Spread {
				t.Error("spreading has ended")
			}
		})
	})
}

// A curious handler looks at the manager whenever it gets a record.
type curious struct {
	slog.Handler

	t *testing.T
	m *Manager

	mu    sync.Mutex
	lines []string
}

func (h *curious) Enabled(context.Context, slog.Level) bool { return true }

func (h *curious) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	h.lines = append(h.lines, r.Message)
	h.mu.Unlock()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		h.m.Roles()
	}()
	select {
	case <-looked:
	case <-time.After(10 * time.Second):
		h.t.Errorf("at the record %q it could not look at the roles", r.Message)
	}
	return nil
}

// A handler of the Logger may add to a line what the manager knows. The manager
// logged while it held its lock, so the handler waited for itself forever.
func TestTheLoggersHandlerMayAskTheManager(t *testing.T) {
	m := manager(t, 3*time.Second, "one", "two")
	h := &curious{Handler: slog.DiscardHandler, t: t, m: m}
	m.cfg.Log = slog.New(h)
	now, two := time.Now(), m.candidacies["two"]

	m.cfg.MaxRoles, m.barred = 1, true
	two.full, two.vacantSince = true, now.Add(-time.Minute)
	m.look(now)

	m.cfg.MaxRoles, m.barred = 0, false
	two.leader, m.others["b"] = "b", 2
	m.look(now.Add(time.Minute))    // it waits for what changes by itself
	m.look(m.next.Add(time.Second)) // asks
	m.tasks.Wait()
	m.asked(&pull{s: two}, store.ErrPermanent) // is refused
	want := []string{"roles without a leader, and no room for them here", "asking for a role", "cannot ask for roles"}
	if !slices.Equal(h.lines, want) {
		t.Errorf("logged %q, want %q", h.lines, want)
	}
}

// A broken handler panics at each record.
type broken struct{ slog.Handler }

func (broken) Enabled(context.Context, slog.Level) bool { return true }

func (broken) Handle(context.Context, slog.Record) error { panic("boom") }

func TestPanicOfTheLoggerDoesNotEndSpreading(t *testing.T) {
	m := manager(t, 3*time.Second, "one")
	m.cfg.Log = slog.New(broken{})
	now, one := time.Now(), m.candidacies["one"]
	m.cfg.MaxRoles, m.barred = 1, true
	one.full, one.vacantSince = true, now.Add(-time.Minute)
	m.turn(now) // logs a role without a leader
	if !m.cfg.Spread || !m.starved {
		t.Errorf("spreads: %v, logged: %v", m.cfg.Spread, m.starved)
	}
}

// A busy store does not answer its check before it is to.
type busy struct {
	store.Store

	once   sync.Once
	asked  chan struct{} // closed when it is checked
	answer chan struct{}
}

func (b *busy) Check(context.Context, store.CheckRequest) (store.Report, error) {
	b.once.Do(func() { close(b.asked) })
	<-b.answer
	return store.Report{}, nil
}

// Start has the store checked, which takes its time where it does not answer.
// No other call waits for that.
func TestNoCallWaitsWhileTheManagerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		m := manager(t, ttl)
		st := &busy{Store: m.store, asked: make(chan struct{}), answer: make(chan struct{})}
		m.store = st
		if err := m.Add(t.Context(), role("one", ttl)); err != nil {
			t.Fatal(err)
		}
		started := make(chan error, 1)
		go func() { started <- m.Start(t.Context()) }()
		<-st.asked
		over, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		for call, c := range map[string]struct{ got, want error }{
			"Start":                       {m.Start(t.Context()), engine.ErrAlreadyStarted},
			"Start of a caller that left": {m.Start(over), context.Canceled},
			"Add":                         {m.Add(t.Context(), role("late", ttl)), nil},
			"Add of a caller that left":   {m.Add(over, role("given up", ttl)), context.Canceled},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: %v, want %v", call, c.got, c.want)
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("the calls took %v", took)
		}
		close(st.answer)
		if err := <-started; err != nil {
			t.Error(err)
		}
		time.Sleep(ttl)
		if c := m.Candidate("late"); m.Candidate("given up") != nil || c == nil || !c.IsLeader() {
			t.Error("the role that was given up is there, or the other is not led")
		}
		if err := m.Stop(t.Context(), engine.StopOptions{WaitForDemote: true}); err != nil {
			t.Error(err)
		}
	})
}
