package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// drainSeen is how long an instance may take to see that it is drained, where the
// record is not watched.
const drainSeen = leader.DrainInterval + heartbeat

// inGroup is config(id) for another group.
func inGroup(group, id string) leader.ElectionConfig {
	cfg := config(id)
	cfg.Group = group
	return cfg
}

func drain(t *testing.T, st store.Store, id string) {
	t.Helper()
	if err := control(t, st).Drain(t.Context(), id, "kernel"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func undrain(t *testing.T, st store.Store, id string) {
	t.Helper()
	if err := control(t, st).Undrain(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestDrainedInstanceHandsOverAllItLeads(t *testing.T) {
	for name, st := range map[string]func() store.Store{
		"watched": func() store.Store { return memstore.New() },
		"read":    func() store.Store { return &checked{Store: memstore.New()} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := st()
				var left leader.LeaderInfo
				a := start(t, st, config("a"))
				aOther := start(t, st, inGroup("h", "a"))
				b := candidate(t, st, config("b"))
				b.OnLeaderChange(func(l leader.LeaderInfo) {
					if l.ID == "" {
						left = l
					}
				})
				started(t, b)
				bOther := start(t, st, inGroup("h", "b"))
				mustLead(t, a, b)
				mustLead(t, aOther, bOther)
				drain(t, st, "a")
				time.Sleep(drainSeen)
				mustLead(t, b, a)
				mustLead(t, bOther, aOther)
				if left.Reason != leader.ReasonDrained || left.By != "ops" || left.Why != "kernel" {
					t.Errorf("it left %+v", left)
				}
				if got := a.Status().Barred; got != leader.ReasonDrained {
					t.Errorf("barred by %q", got)
				}
				// Nor does it lead a group that is made later.
				later := start(t, st, inGroup("later", "a"))
				time.Sleep(10 * wait)
				mustNotLead(t, later, a)
				// It observes all the time, and campaigns again at the end.
				if a.LeaderID() != "b" {
					t.Errorf("%q leads", a.LeaderID())
				}
				undrain(t, st, "a")
				time.Sleep(drainSeen)
				mustLead(t, later)
				mustLead(t, b, a)
				halt(t, b)
				time.Sleep(ttl + heartbeat)
				mustLead(t, a)
			})
		})
	}
}

// The order's revision is one that the instance has seen, or a lower one.
func TestDrainIsObeyedInAStoreThatForgot(t *testing.T) {
	for name, back := range map[string]func(seen uint64) (last uint64){
		"lower": func(uint64) uint64 { return 0 },
		"same":  func(seen uint64) uint64 { return seen - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				st := &checked{Store: mem}
				a := start(t, st, config("a"))
				mustLead(t, a)
				drain(t, st, "a")
				undrain(t, st, "a")
				time.Sleep(drainSeen)
				seen, err := mem.Get(t.Context(), record.DrainKey("a"))
				if err != nil {
					t.Fatal(err)
				}
				mem.Restore(nil, back(seen.Revision))
				drain(t, st, "a")
				time.Sleep(drainSeen + 3*time.Second)
				if got := a.Status().Barred; got != leader.ReasonDrained {
					t.Errorf("barred by %q", got)
				}
			})
		})
	}
}

// The operator decides: a group without another candidate has no leader.
func TestDrainedInstanceLeavesAlsoWithoutASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		drain(t, st, "a")
		mustNotLead(t, a)
		time.Sleep(10 * wait)
		mustNotLead(t, a)
		undrain(t, st, "a")
		mustLead(t, a)
	})
}

// inProcess starts a candidate of another process than this one.
func inProcess(t *testing.T, st store.Store, process string, cfg leader.ElectionConfig) leader.Election {
	t.Helper()
	e := candidate(t, st, cfg)
	leader.SetProcess(e, process)
	return started(t, e)
}

func TestRestartEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		state := func() leader.DrainState {
			t.Helper()
			s, err := control(t, st).DrainState(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		// The order is older than the first process.
		drain(t, st, "a")
		if s := state(); !s.Drained || s.Taken || s.By != "ops" || s.Why != "kernel" || s.At.IsZero() {
			t.Errorf("ordered: %+v", s)
		}
		first := inProcess(t, st, "1", config("a"))
		time.Sleep(10 * wait)
		mustNotLead(t, first)
		if e, _ := stored(t, st); e.Revision != 0 {
			t.Error("it has claimed before it knew")
		}
		if s := state(); !s.Drained || !s.Taken {
			t.Errorf("taken: %+v", s)
		}
		other := inProcess(t, st, "1", inGroup("h", "a"))
		mustNotLead(t, other)
		halt(t, first)
		halt(t, other)
		second := inProcess(t, st, "2", config("a"))
		mustLead(t, second)
		time.Sleep(heartbeat)
		if s := state(); s.Drained {
			t.Errorf("after the restart: %+v", s)
		}
		// Another order is obeyed by the process that ignored the first.
		drain(t, st, "a")
		mustNotLead(t, second)
		// And again before a restart: the next process obeys it, although the
		// present one has taken the first.
		time.Sleep(heartbeat)
		halt(t, second)
		drain(t, st, "a")
		third := inProcess(t, st, "3", config("a"))
		time.Sleep(10 * wait)
		mustNotLead(t, third)
	})
}

func TestDrainConcernsExactlyTheInstance(t *testing.T) {
	long := strings.Repeat("é", 128)
	for _, id := range []string{"a", "a b", "=YQ", "a..b", ".a", "*", ">", "host.example/1", long} {
		t.Run(fmt.Sprintf("%.20q", id), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				e, other := start(t, st, config(id)), start(t, st, config("other"))
				mustLead(t, e, other)
				drain(t, st, id+"x"[:min(1, 256-len(id))])
				if len(id) < 256 {
					mustLead(t, e, other)
				}
				drain(t, st, id)
				mustLead(t, other, e)
			})
		})
	}
}

// A record that is not one changes nothing of what is known.
func TestMalformedDrainChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		key := record.DrainKey("a")
		put(t, st, key, "garbage")
		e := start(t, st, config("a"))
		mustLead(t, e)
		put(t, st, key, record.Drain{Instance: "b"})
		mustLead(t, e)
		drain(t, st, "a")
		mustNotLead(t, e)
		put(t, st, key, "garbage")
		time.Sleep(10 * wait)
		mustNotLead(t, e)
	})
}

// A forbidden store refuses some calls about drain records.
type forbidden struct {
	*memstore.Store
	read, watch, write bool
}

func (f *forbidden) denied(when bool, key string) error {
	if when && strings.HasPrefix(key, record.ControlKey(record.DrainPrefix)) {
		return fmt.Errorf("%w: no permission for %s", store.ErrPermanent, key)
	}
	return nil
}

func (f *forbidden) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := f.denied(f.read, key); err != nil {
		return store.Entry{}, err
	}
	return f.Store.Get(ctx, key)
}

func (f *forbidden) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	for _, key := range keys {
		if err := f.denied(f.watch, key); err != nil {
			return nil, err
		}
	}
	return f.Store.Watch(ctx, keys, func(e store.Entry) {
		if f.denied(f.read, e.Key) == nil || e.Revision != 0 { // the present state takes a read
			deliver(e)
		}
	})
}

func (f *forbidden) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := f.denied(f.write, w.Key); err != nil {
		return 0, err
	}
	return f.Store.CompareAndSwap(ctx, w)
}

// The users of earlier versions lack the rights to the drain record.
func TestMissingRightsToTheDrainRecordAreWarnings(t *testing.T) {
	for _, c := range []struct {
		name               string
		read, watch, write bool
		drains             bool
		warns              string
	}{
		{"all", true, true, true, false, "cannot be read"},
		{"watch", false, true, false, true, "cannot be watched, and is read every 30s"},
		{"read", true, false, false, true, "cannot be read, so that an order is obeyed only when it arrives while this process runs"},
		{"write", false, false, true, true, "cannot be written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				var notes []string
				cfg := config("a")
				cfg.Hooks.Note = func(n leader.Note) { notes = append(notes, n.Kind+": "+n.Text) }
				a := start(t, &forbidden{st, c.read, c.watch, c.write}, cfg)
				b := start(t, st, config("b"))
				mustLead(t, a, b)
				drain(t, st, "a")
				time.Sleep(drainSeen)
				if c.drains {
					mustLead(t, b, a)
				} else {
					mustLead(t, a, b)
				}
				said := 0
				for _, n := range notes {
					if strings.Contains(n, "no permission for _ctl._drain.a") {
						said++
						if !strings.HasPrefix(n, "warning: ") || !strings.Contains(n, c.warns) {
							t.Errorf("it warns: %s", n)
						}
					}
				}
				if said != 1 {
					t.Errorf("%d warnings in %q", said, notes)
				}
			})
		})
	}
}

// A drainWriter is a store whose writes to drain records a test performs.
type drainWriter struct {
	*memstore.Store

	write func(context.Context, store.Write) (uint64, error)
}

func (s *drainWriter) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if strings.HasPrefix(w.Key, record.ControlKey(record.DrainPrefix)) {
		return s.write(ctx, w)
	}
	return s.Store.CompareAndSwap(ctx, w)
}

// warnsOfDrains returns the configuration of a, and counts its warnings about
// drains.
func warnsOfDrains() (cfg leader.ElectionConfig, warnings *int) {
	cfg, warnings = config("a"), new(int)
	cfg.Hooks.Note = func(n leader.Note) {
		if n.Kind == leader.NoteWarning && strings.Contains(n.Text, "drain record") {
			*warnings++
		}
	}
	return cfg, warnings
}

func TestDrainRecordIsWrittenAlsoAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		back := time.Now().Add(time.Minute)
		st := &drainWriter{mem, func(ctx context.Context, w store.Write) (uint64, error) {
			if time.Now().Before(back) {
				return 0, store.ErrTransient
			}
			return mem.CompareAndSwap(ctx, w)
		}}
		drain(t, mem, "a")
		cfg, warnings := warnsOfDrains()
		first := inProcess(t, st, "1", cfg)
		time.Sleep(2 * time.Minute)
		mustNotLead(t, first)
		if s, err := control(t, mem).DrainState(t.Context(), "a"); err != nil || !s.Taken || *warnings != 1 {
			t.Errorf("%+v, %v, %d warnings", s, err, *warnings)
		}
		halt(t, first)
		back = time.Now().Add(time.Minute)
		second := inProcess(t, st, "2", cfg)
		mustLead(t, second)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s, err := control(t, mem).DrainState(t.Context(), "a"); err != nil || s.Drained || *warnings != 2 {
			t.Errorf("after the restart: %+v, %v, %d warnings", s, err, *warnings)
		}
	})
}

func TestLostAcknowledgementOfADrainIsNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		st := &drainWriter{mem, func(ctx context.Context, w store.Write) (uint64, error) {
			_, _ = mem.CompareAndSwap(ctx, w)
			return 0, store.ErrUnknown
		}}
		drain(t, mem, "a")
		for _, process := range []string{"1", "2"} { // takes the order, ends it
			cfg, warnings := warnsOfDrains()
			e := inProcess(t, st, process, cfg)
			time.Sleep(time.Minute)
			synctest.Wait()
			if *warnings != 0 {
				t.Errorf("%d warnings of process %s", *warnings, process)
			}
			halt(t, e)
		}
		if s, err := control(t, mem).DrainState(t.Context(), "a"); err != nil || s.Drained {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestDrainedManagerLeadsNoRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		of := func(id string) *leader.RoleManager {
			cfg := config(id)
			cfg.Group = ""
			m, err := leader.NewRoleManagerWithStore(st, leader.RoleManagerConfig{
				Election: cfg, Spread: leader.SpreadConfig{Enabled: true, Pace: 1},
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				if err := m.Add(t.Context(), leader.Role{Name: fmt.Sprint("r", i)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.Stop() })
			synctest.Wait()
			return m
		}
		leads := func(m *leader.RoleManager) (n int) {
			synctest.Wait()
			for _, s := range m.Roles() {
				if s.IsLeader {
					n++
				}
			}
			return n
		}
		a, b := of("a"), of("b")
		time.Sleep(time.Minute)
		if x, y := leads(a), leads(b); x != 2 || y != 2 {
			t.Fatalf("%d and %d roles", x, y)
		}
		drain(t, st, "a")
		time.Sleep(time.Minute)
		if err := a.Add(t.Context(), leader.Role{Name: "later"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if x, y := leads(a), leads(b); x != 0 || y != 4 {
			t.Errorf("drained: %d and %d roles", x, y)
		}
		for _, s := range a.Roles() {
			if s.Barred != leader.ReasonDrained {
				t.Errorf("role %q is barred by %q", s.Name, s.Barred)
			}
		}
		undrain(t, st, "a")
		time.Sleep(time.Minute)
		if x, y := leads(a), leads(b); x < 2 || x+y != 5 {
			t.Errorf("undrained: %d and %d roles", x, y)
		}
	})
}

// The last candidate of a process ends the watch of its drain, and the next one
// begins another.
func TestInstanceThatStartsAgainInOneProcessIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		halt(t, start(t, st, config("a")), start(t, st, inGroup("h", "a")))
		a := start(t, st, config("a"))
		mustLead(t, a)
		drain(t, st, "a")
		mustNotLead(t, a)
	})
}

// Two live processes of one InstanceID are a mistake, and neither may undo the
// order that the other obeys.
func TestOrderThatAnotherProcessTakesIsObeyedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		mustLead(t, a)
		drain(t, st, "a")
		put(t, st, record.DrainKey("a"), record.Drain{Instance: "a", Taken: "other"})
		time.Sleep(time.Minute)
		mustNotLead(t, a)
		if s, err := control(t, st).DrainState(t.Context(), "a"); err != nil || !s.Drained {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// A store of late news has the watch deliver an order while the read before it, which
// shows none, is under way. It cannot be compared.
type lateNews struct {
	*memstore.Store
	watches map[string]func(store.Entry)
	order   func()
}

func (s lateNews) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	if keys[0] == record.DrainKey("a") {
		s.watches["drain"] = deliver
		return func() {}, nil
	}
	return s.Store.Watch(ctx, keys, deliver)
}

func (s lateNews) Get(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.Store.Get(ctx, key)
	if deliver := s.watches["drain"]; deliver != nil && key == record.DrainKey("a") {
		s.order()
		news, _ := s.Store.Get(ctx, key)
		deliver(news)
	}
	return e, err
}

func TestReadDoesNotOverrideANewerDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, lateNews{st, map[string]func(store.Entry){}, func() { st.Put(record.DrainKey("a"), []byte(`{"instance":"a"}`)) }}, config("a"))
		time.Sleep(time.Minute)
		if got := a.Status(); got.Barred != leader.ReasonDrained || got.IsLeader {
			t.Errorf("%+v, %v", got, a.Err())
		}
	})
}

// A stubborn store ends no write to a drain's record before its context ends.
type stubborn struct {
	*memstore.Store
	underWay atomic.Int32
}

func (s *stubborn) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key != record.DrainKey("a") {
		return s.Store.CompareAndSwap(ctx, w)
	}
	s.underWay.Add(1)
	defer s.underWay.Add(-1)
	<-ctx.Done()
	time.Sleep(time.Second)
	return 0, store.ErrUnknown
}

func TestStopWaitsForTheWriteOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &stubborn{Store: memstore.New()}
		a := start(t, st, config("a"))
		drain(t, st.Store, "a")
		if st.underWay.Load() != 1 {
			t.Fatal("the order is not being taken")
		}
		halt(t, a)
		if st.underWay.Load() != 0 {
			t.Error("a write is under way after Stop")
		}
	})
}

func TestDrainDemandsAnInstance(t *testing.T) {
	c := control(t, memstore.New())
	for _, id := range []string{"", strings.Repeat("x", 257), "a\n"} {
		_, err := c.DrainState(t.Context(), id)
		for _, err := range []error{c.Drain(t.Context(), id, ""), c.Undrain(t.Context(), id), err} {
			if !errors.Is(err, leader.ErrInvalidConfig) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if err := c.Drain(t.Context(), "a", strings.Repeat("x", 513)); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Error(err)
	}
}
