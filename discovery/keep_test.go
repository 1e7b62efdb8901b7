package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/store"
)

const ttl = 3 * time.Second

// A system is a discovery system as simple as one can be: one entry, with a
// version, that may expire. The adapters to real systems are tested in
// test/labs/stores.
type system struct {
	mu       sync.Mutex
	entry    discovery.Entry
	last     uint64
	version  int
	damaged  bool
	expires  time.Time
	changed  []func()
	log      []string
	calls    int
	writes   int
	holding  chan struct{} // while it is not nil, writes wait for it to be closed, whatever became of their caller
	failure  func(call string) error
	mortal   bool // its entries expire
	remember bool // withdrawals leave a mark
}

func (s *system) at(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.failure == nil {
		return nil
	}
	return s.failure(call)
}

func (s *system) expire() {
	if s.mortal && !s.entry.IsZero() && !time.Now().Before(s.expires) {
		s.set(discovery.Entry{}, "expired")
	}
}

func (s *system) Look(_ context.Context, _ string) (discovery.Standing, error) {
	if err := s.at("look"); err != nil {
		return discovery.Standing{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	st := discovery.Standing{Entry: s.entry, Version: strconv.Itoa(s.version), Damaged: s.damaged, LastTerm: s.entry.Term}
	if s.remember {
		st.LastTerm = s.last
	}
	return st, nil
}

// set is called with the lock held.
func (s *system) set(e discovery.Entry, what string) {
	if what != "expired" {
		s.version++
	}
	s.entry, s.damaged, s.last = e, false, max(s.last, e.Term)
	s.log = append(s.log, fmt.Sprintf("%s %s", what, e.Instance))
	for _, f := range s.changed {
		f()
	}
}

// write applies a change later than its caller waits, if the system is held.
func (s *system) write(ctx context.Context, version string, change func()) error {
	s.mu.Lock()
	held := s.holding
	s.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		if held != nil {
			<-held
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expire()
		if version != strconv.Itoa(s.version) {
			done <- discovery.ErrChanged
			return
		}
		s.writes++
		change()
		done <- nil
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *system) Announce(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	if err := s.at("announce"); err != nil {
		return err
	}
	return s.write(ctx, stands.Version, func() {
		s.expires = time.Now().Add(e.TTL)
		s.set(e, "announce")
	})
}

func (s *system) Withdraw(ctx context.Context, stands discovery.Standing) error {
	if err := s.at("withdraw"); err != nil {
		return err
	}
	return s.write(ctx, stands.Version, func() { s.set(discovery.Entry{}, "withdraw "+stands.Entry.Instance) })
}

// tamper does what somebody else does.
func (s *system) tamper(e discovery.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(e, "tamper")
}

func (s *system) stands() discovery.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	return s.entry
}

func (s *system) hold(h chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = h
}

func (s *system) fail(f func(call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = f
}

func (s *system) counts() (calls, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.writes
}

func (s *system) hear() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

// A mortal system has entries that expire, and a watch.
type mortal struct{ *system }

func (m mortal) Refresh(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	if err := m.at("refresh"); err != nil {
		return err
	}
	return m.write(ctx, stands.Version, func() { m.expires = time.Now().Add(e.TTL) })
}

type watched struct{ *system }

func (w watched) Watch(ctx context.Context, _ string, changed func()) error {
	w.mu.Lock()
	w.changed = append(w.changed, changed)
	w.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// A stage is a group of candidates, each with its keeper.
type stage struct {
	t      *testing.T
	group  *leadertest.Group
	all    map[string]*candidate
	logger *slog.Logger // of those that join
}

type candidate struct {
	*leadertest.Election
	events

	end   context.CancelFunc
	ended chan error
}

// events are what a keeper reported.
type events struct {
	mu  sync.Mutex
	all []discovery.Event
}

func (c *events) note(ev discovery.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, ev)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	g := leadertest.NewGroup(t, leader.ElectionConfig{
		Group: "reports", TTL: ttl, HeartbeatInterval: time.Second, Address: "192.0.2.1:80", Meta: map[string]string{"zone": "x"},
		AcquireGrace: leader.GraceOff, DeleteOnStop: true,
	})
	return &stage{t: t, group: g, all: map[string]*candidate{}}
}

func (s *stage) join(id string, a discovery.Announcer) *candidate {
	s.t.Helper()
	c := &candidate{Election: s.group.Join(id), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	go func() {
		c.ended <- discovery.Keep(ctx, c, a, discovery.Options{Report: c.note, Logger: s.logger})
	}()
	if err := c.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cancel()
		if err := <-c.ended; err != nil {
			s.t.Error(err)
		}
	})
	s.all[id] = c
	synctest.Wait()
	return c
}

// stand adds a candidate without a keeper.
func (s *stage) stand(id string) *candidate {
	s.t.Helper()
	c := &candidate{Election: s.group.Join(id)}
	if err := c.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.all[id] = c
	synctest.Wait()
	return c
}

// count returns how many events of a kind were reported.
func (c *events) count(kind discovery.Kind) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.all {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

func demand(t *testing.T, s *system, who string) {
	t.Helper()
	if e := s.stands(); e.Instance != who {
		t.Fatalf("the entry is %+v, and should be of %q", e, who)
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestTheLeadersEntryLastsFromPromotionToLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", s)
		e := s.stands()
		want := discovery.Entry{
			Group: "reports", Instance: "a", Term: a.Term().Number, Correlation: a.Term().Correlation(), Address: "192.0.2.1:80",
			Meta: map[string]string{"zone": "x"},
		}
		if !e.Same(want) || e.TTL <= 0 || e.TTL > ttl/2 {
			t.Fatalf("%+v is stored, want %+v", e, want)
		}
		g.join("b", s)
		begun := time.Now()
		g.group.Promote("b")
		synctest.Wait()
		demand(t, s, "b")
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("the entry changed %v after the handover", took)
		}
		if err := g.all["b"].Stop(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		demand(t, s, "a")
		if n := a.count(discovery.Announced); n != 2 {
			t.Errorf("%d times announced, want 2", n)
		}
		a.end()
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
		a.ended <- nil
		demand(t, s, "")
	})
}

func TestATermThatEndsWithoutASuccessorIsWithdrawnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", s)
		demand(t, s, "a")
		begun := time.Now()
		if err := a.Pause(t.Context(), "maintenance"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		demand(t, s, "")
		if time.Since(begun) != 0 {
			t.Errorf("it took %v", time.Since(begun))
		}
	})
}

func TestACutOffLeaderWithdrawsWhenItsWindowCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", s)
		a.CutOff()
		end := a.TrustUntil()
		pass(time.Until(end) - time.Millisecond)
		demand(t, s, "a")
		pass(2 * time.Millisecond)
		demand(t, s, "")
	})
}

// A slept election behaves as on a machine that was suspended within its
// window.
type slept struct {
	*leadertest.Election

	taken atomic.Int64 // what that took from the window
}

func (s *slept) Status() leader.ElectionStatus {
	st := s.Election.Status()
	st.TrustUntil = st.TrustUntil.Add(-time.Duration(s.taken.Load()))
	return st
}

func TestASuspensionShortensNoWindowButItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		a := &slept{Election: g.group.Join("a")}
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- discovery.Keep(ctx, a, mortal{s}, discovery.Options{}) }()
		if err := a.Start(ctx); err != nil {
			t.Fatal(err)
		}
		work := func() int {
			before, _ := s.counts()
			pass(10 * ttl)
			after, _ := s.counts()
			return after - before
		}
		usual := work()
		a.taken.Store(int64(2 * time.Second))
		pass(2 * time.Second)
		a.taken.Store(0)
		pass(ttl)
		if n := work(); n > usual+1 {
			t.Errorf("%d calls after it, %d before", n, usual)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A late election's status is of before something that happens meanwhile.
type late struct {
	*leadertest.Election

	meanwhile atomic.Pointer[func()]
}

func (l *late) Status() leader.ElectionStatus {
	st := l.Election.Status()
	if f := l.meanwhile.Swap(nil); f != nil && st.IsLeader {
		(*f)()
	}
	return st
}

func TestATermThatEndsWhileItIsAskedForIsNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := &late{Election: g.group.Join("a")}
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- discovery.Keep(ctx, a, s, discovery.Options{}) }()
		if err := a.Start(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		demand(t, s, "a")
		s.tamper(discovery.Entry{})
		s.hear()
		end := func() {
			if err := a.Pause(ctx, "meanwhile"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond) // the keeper hears of it
		}
		a.meanwhile.Store(&end)
		pass(ttl)
		if log := s.hear(); len(log) > 0 {
			t.Errorf("%v", log)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A leader that is dead, or frozen, writes nothing more: here, for its keeper's
// calls fail.
func TestTheNextLeaderReplacesWhatADeadOneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		dead := &system{}
		a := g.join("a", either{s, dead})
		g.join("b", s)
		demand(t, s, "a")
		dead.fail(func(string) error { return errors.New("no route to host") })
		a.CutOff()
		pass(ttl * 11 / 10)
		pass(100 * time.Millisecond)
		demand(t, s, "b")
	})
}

// An either is a system whose answers are cut off when the other's fail.
type either struct {
	*system
	way *system
}

func (e either) Look(ctx context.Context, group string) (discovery.Standing, error) {
	if err := e.way.at("look"); err != nil {
		return discovery.Standing{}, err
	}
	return e.system.Look(ctx, group)
}

func TestOthersRemoveWhatADeadLeaderLeftIfNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		dead := &system{}
		a := g.join("a", either{s, dead})
		demand(t, s, "a")
		cfg := g.group.Config("b")
		cfg.HealthChecker, cfg.HealthCheckInterval = unfit{}, time.Second
		b, err := leader.NewElectionWithStore(g.group.Store("b"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- discovery.Keep(ctx, b, s, discovery.Options{}) }()
		defer func() {
			cancel()
			if err := errors.Join(<-kept, b.Stop()); err != nil {
				t.Error(err)
			}
		}()
		pass(10 * time.Second) // it is found unfit
		demand(t, s, "a")
		dead.fail(func(string) error { return errors.New("no route to host") })
		a.CutOff()
		pass(ttl*11/10 + time.Second)
		demand(t, s, "")
	})
}

// Its own store was in trouble when the leader died, and since then it is not
// fit to lead.
func TestOthersRemoveItWhenTheirStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		dead := &system{}
		a := g.join("a", either{s, dead})
		demand(t, s, "a")
		fit := new(fitness)
		fit.Store(true)
		cfg := g.group.Config("b")
		cfg.HealthChecker, cfg.HealthCheckInterval = fit, time.Second
		b, err := leader.NewElectionWithStore(g.group.Store("b"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- discovery.Keep(ctx, b, s, discovery.Options{}) }()
		defer func() {
			cancel()
			if err := errors.Join(<-kept, b.Stop()); err != nil {
				t.Error(err)
			}
		}()
		dead.fail(func(string) error { return errors.New("no route to host") })
		a.CutOff()
		g.group.Store("b").CutOff()
		pass(3 * ttl) // until its claim, if it makes one, has timed out
		demand(t, s, "a")
		if b.Status().LastError == nil {
			t.Fatal("its store is well")
		}
		fit.Store(false)
		pass(4 * time.Second)
		g.group.Store("b").Reconnect()
		failed := b.Status().LastErrorAt
		pass(time.Until(failed.Add(10 * time.Second)))
		// It may not know yet, unless it had made a claim when it was cut off,
		// which its store has answered since.
		if b.Status().LastError != nil {
			demand(t, s, "a")
		}
		pass(10 * time.Second)
		demand(t, s, "")
	})
}

type fitness struct{ atomic.Bool }

func (f *fitness) Check(context.Context) bool { return f.Load() }

type unfit struct{}

func (unfit) Check(context.Context) bool { return false }

func TestAnEntryThatExpiresEndsWithTheWindowOfAFrozenLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		m := mortal{s}
		a := g.join("a", m)
		for range 100 { // it is refreshed in time
			pass(100 * time.Millisecond)
			demand(t, s, "a")
		}
		if n := a.count(discovery.Repaired); n != 0 {
			t.Errorf("it ran out %d times", n)
		}
		// From now on nothing reaches the system, nor the store.
		s.fail(func(string) error { return errors.New("no route to host") })
		a.CutOff()
		pass(time.Until(a.TrustUntil()))
		demand(t, s, "")
	})
}

func TestNothingIsProlongedInTheSecondHalfOfAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		a := g.join("a", mortal{s})
		a.CutOff()
		pass(time.Until(a.TrustUntil()) - time.Millisecond)
		if !a.IsLeader() {
			t.Fatal("the window closed too early")
		}
		demand(t, s, "")
	})
}

// tampering is what others do to an entry.
func tampering() map[string]func(*system) {
	changed := func(change func(*discovery.Entry)) func(*system) {
		return func(s *system) {
			e := s.stands()
			change(&e)
			s.tamper(e)
		}
	}
	return map[string]func(*system){
		"deleted":          func(s *system) { s.tamper(discovery.Entry{}) },
		"with an address":  changed(func(e *discovery.Entry) { e.Address = "203.0.113.9:666" }),
		"with another":     changed(func(e *discovery.Entry) { e.Instance = "z" }),
		"with metadata":    changed(func(e *discovery.Entry) { e.Meta = map[string]string{"zone": "z"} }),
		"of another group": changed(func(e *discovery.Entry) { e.Group = "z" }),
		"in part":          func(s *system) { s.mu.Lock(); s.version++; s.damaged = true; s.mu.Unlock() },
		"by an old entry": func(s *system) {
			s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 0, Correlation: "old"})
		},
	}
}

func TestForeignChangesAreRepaired(t *testing.T) {
	for name, tamper := range tampering() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{}, newStage(t)
				a := g.join("a", s)
				before := s.stands()
				tamper(s)
				pass(time.Second) // a third of the window
				if e := s.stands(); !e.Same(before) || s.damaged {
					t.Errorf("%+v is stored, want %+v", e, before)
				}
				if a.count(discovery.Repaired) != 1 {
					t.Error("not reported")
				}
			})
		})
	}
}

// A written system keeps entries as all adapters do: as JSON, which is UTF-8.
type written struct{ *system }

func (w written) Look(ctx context.Context, group string) (s discovery.Standing, err error) {
	s, err = w.system.Look(ctx, group)
	if err != nil {
		return s, err
	}
	text, err := json.Marshal(s.Entry)
	s.Entry = discovery.Entry{}
	return s, errors.Join(err, json.Unmarshal(text, &s.Entry))
}

// Otherwise it would be announced again with each look.
func TestInvalidUTF8IsAnnouncedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{}
		g := &stage{t: t, group: leadertest.NewGroup(t, leader.ElectionConfig{
			Group: "reports", TTL: ttl, HeartbeatInterval: time.Second, Address: "\xff\xff:80", Meta: map[string]string{"zone\xfe": "\xff"},
			AcquireGrace: leader.GraceOff, DeleteOnStop: true,
		}), all: map[string]*candidate{}}
		a := g.join("a", written{s})
		pass(time.Minute)
		if _, writes := s.counts(); writes != 1 || a.count(discovery.Repaired) > 0 {
			t.Errorf("%d writes, %d repairs", writes, a.count(discovery.Repaired))
		}
	})
}

func TestAWatchRepairsAtOnceAndNotInAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		g.join("a", watched{s})
		s.tamper(discovery.Entry{})
		synctest.Wait()
		demand(t, s, "a")
		// Somebody deletes it as soon as it is there.
		_, before := s.counts()
		for range 10_000 {
			if !s.stands().IsZero() {
				s.tamper(discovery.Entry{})
			}
			pass(time.Millisecond)
		}
		if _, after := s.counts(); after-before > 60 {
			t.Errorf("%d writes in ten seconds", after-before)
		}
	})
}

// The bytes of a leader that was frozen reach the system after its successor's.
func TestALateWriteReplacesNoLaterEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		late := make(chan struct{})
		s.hold(late)
		a := g.join("a", s) // announces, and its write is on the way
		if !a.IsLeader() {
			t.Fatal("nobody leads")
		}
		s.hold(nil)
		a.CutOff()
		g.join("b", s)
		pass(2 * ttl)
		demand(t, s, "b")
		s.hear()
		close(late)
		pass(time.Minute)
		demand(t, s, "b")
		if log := s.hear(); len(log) != 0 {
			t.Errorf("written since: %v", log)
		}
	})
}

// The bytes of a frozen leader arrive when nothing prevents the write: there is
// no leader.
func TestALateWriteIsRemovedByThatLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		late := make(chan struct{})
		s.hold(late)
		a := g.join("a", s)
		s.hold(nil)
		before, _ := s.counts()
		if err := a.Pause(t.Context(), "maintenance"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if after, _ := s.counts(); after == before {
			t.Error("the call went on when its term was over")
		}
		pass(discovery.DefaultTimeout)
		close(late)
		pass(time.Second)
		demand(t, s, "")
		if log := s.hear(); !slices.Equal(log, []string{"announce a", "withdraw a "}) {
			t.Errorf("%v", log)
		}
		if a.count(discovery.Withdrawn) != 1 {
			t.Error("not reported")
		}
	})
}

// An election whose goroutine is stuck, in a hook, does not report the end of
// its term.
func TestACallEndsWithTheWindowOfAnElectionThatIsStuck(t *testing.T) {
	for range 5 {
		shown := false
		synctest.Test(t, func(t *testing.T) { shown = endsWithAStuckElection(t) })
		if shown {
			return
		}
	}
	t.Fatal("each time the election saw its renewal before it was stuck")
}

// endsWithAStuckElection is the test. It shows nothing where the election sees
// its renewal in the store before the answer, which calls the hook: the window
// is a longer one then.
func endsWithAStuckElection(t *testing.T) (shown bool) {
	t.Helper()
	s, g := &system{}, newStage(t)
	var stuck atomic.Bool
	free := make(chan struct{})
	cfg := g.group.Config("a")
	cfg.Hooks.Call = func(leader.Call) {
		if stuck.Load() {
			<-free
		}
	}
	e, err := leader.NewElectionWithStore(g.group.Store("a"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- discovery.Keep(ctx, e, watched{s}, discovery.Options{}) }()
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	demand(t, s, "a")
	stuck.Store(true) // the next renewal calls the hook
	e2 := s.stands()
	e2.Address = "203.0.113.9:666"
	late := make(chan struct{})
	s.hold(late)
	var repairs atomic.Int32
	s.fail(func(call string) error {
		if call == "announce" {
			repairs.Add(1)
		}
		return nil
	})
	s.tamper(e2)
	synctest.Wait()
	if repairs.Load() != 1 {
		t.Fatal("no repair is on its way")
	}
	s.hold(nil)
	pass(time.Until(e.TrustUntil()) + time.Millisecond)
	if shown = !e.IsLeader(); shown {
		demand(t, s, "")
	}
	close(free)
	close(late)
	cancel()
	if err := errors.Join(<-kept, e.Stop()); err != nil {
		t.Error(err)
	}
	return shown
}

func TestFollowersLeaveADeadLeadersEntryToTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		dead := &system{}
		a := g.join("a", either{s, dead})
		b, c := g.join("b", s), g.join("c", s)
		dead.fail(func(string) error { return errors.New("no route to host") })
		a.CutOff()
		pass(2 * ttl)
		if e := s.stands().Instance; e != "b" && e != "c" {
			t.Errorf("the entry is of %q", e)
		}
		if n := b.count(discovery.Removed) + c.count(discovery.Removed); n != 0 {
			t.Errorf("it was removed %d times", n)
		}
	})
}

func TestALaterTermIsLeftAloneUntilItIsKnownToBeOfAnotherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{remember: true}, newStage(t)
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 1 << 40, Correlation: "z"})
		a := g.join("a", s)
		pass(2 * ttl)
		demand(t, s, "z")
		if n := a.count(discovery.Superseded); n != 1 {
			t.Errorf("%d reports, want 1", n)
		}
		// It changes, so somebody keeps it.
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 1 << 41, Correlation: "z"})
		pass(2 * ttl)
		demand(t, s, "z")
		pass(2 * ttl)
		demand(t, s, "a")
		if n := a.count(discovery.Displaced); n != 1 {
			t.Errorf("%d reports, want 1", n)
		}
	})
}

func TestALeaderThatCannotReachItsStoreDisplacesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", s)
		g.join("b", s)
		demand(t, s, "a")
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 1 << 40, Correlation: "z"})
		a.CutOff()
		pass(ttl)
		demand(t, s, "z")
		if n := a.count(discovery.Displaced); n != 0 {
			t.Error("displaced")
		}
	})
}

func TestALeaderWhoseStoreDoesNotAnswerDisplacesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 1 << 40, Correlation: "z"})
		a := g.join("a", s)
		pass(8050 * time.Millisecond) // it renewed at 8 s, and at 8.1 s three windows have passed
		a.CutOff()
		pass(time.Second)
		if !a.IsLeader() {
			t.Fatal("it leads no more")
		}
		demand(t, s, "z")
		a.Reconnect()
		pass(ttl)
		demand(t, s, "a")
	})
}

// A deafStore delivers no changes, as a watch that has gone astray, and no
// error.
type deafStore struct {
	*leadertest.Store

	deaf atomic.Bool
}

func (d *deafStore) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	return d.Store.Watch(ctx, keys, func(e store.Entry) {
		if !d.deaf.Load() {
			deliver(e)
		}
	})
}

// An unfit candidate never writes, so that nothing shows it that its own watch
// is the silent one.
func TestAFollowerThatDoesNotHearALivingLeaderDisturbsItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", s)
		cfg, st := g.group.Config("b"), &deafStore{Store: g.group.Store("b")}
		cfg.HealthChecker, cfg.HealthCheckInterval = unfit{}, time.Second
		b, err := leader.NewElectionWithStore(st, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- discovery.Keep(ctx, b, s, discovery.Options{}) }()
		pass(10 * time.Second)
		st.deaf.Store(true)
		pass(5 * time.Minute)
		demand(t, s, "a")
		if n := a.count(discovery.Repaired); n != 1 {
			t.Errorf("%d repairs, want 1", n)
		}
		cancel()
		if err := errors.Join(<-kept, b.Stop()); err != nil {
			t.Error(err)
		}
	})
}

func TestAFollowerThatKnowsThatItIsCutOffDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		g.join("a", s)
		b := g.join("b", s)
		pass(10 * time.Second)
		b.CutOff()
		pass(5 * time.Minute)
		if n := b.count(discovery.Removed); n != 0 {
			t.Errorf("removed %d times", n)
		}
		demand(t, s, "a")
	})
}

// A keeper that keeps losing to others must back off.
func TestLostRacesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		s.fail(func(call string) error {
			if call == "announce" {
				return discovery.ErrChanged
			}
			return nil
		})
		a := g.join("a", s)
		if calls, _ := s.counts(); calls < 6 || calls > 12 {
			t.Errorf("%d calls at once, want three times two and the first looks", calls)
		}
		pass(time.Minute)
		if calls, _ := s.counts(); calls > 200 || a.count(discovery.Failed) < 40 {
			t.Errorf("%d calls in a minute, %d reports", calls, a.count(discovery.Failed))
		}
		s.fail(nil)
		pass(2 * time.Second)
		demand(t, s, "a")
	})
}

func TestFailuresArePacedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		s.fail(func(string) error { return errors.New("503") })
		a := g.join("a", s)
		pass(time.Minute)
		calls, _ := s.counts()
		if calls < 30 || calls > 150 {
			t.Errorf("%d calls in a minute", calls)
		}
		if n := a.count(discovery.Failed); n != calls {
			t.Errorf("%d reports of %d failures", n, calls)
		}
		s.fail(nil)
		pass(2 * time.Second)
		demand(t, s, "a")
	})
}

// The log of a system that is down for a night must not fill a disk. A new
// failure is logged immediately.
func TestAFailureThatGoesOnIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		s, g := &system{}, newStage(t)
		s.fail(func(string) error { return errors.New("503") })
		g.logger = slog.New(slog.NewTextHandler(&log, nil))
		a := g.join("a", s)
		failed := func() int { return log.count("event=" + string(discovery.Failed)) }
		pass(time.Hour)
		if n := failed(); n < 55 || n > 62 {
			t.Errorf("%d lines in an hour of %d failures", n, a.count(discovery.Failed))
		}
		s.fail(nil)
		pass(time.Minute)
		demand(t, s, "a")
		before := failed()
		s.fail(func(string) error { return errors.New("503") })
		pass(10 * time.Second)
		if n := failed() - before; n != 1 {
			t.Errorf("%d lines when it is down again", n)
		}
	})
}

// lines is a log that the keeper writes and a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// deaf answers no call before its context ends.
type deaf struct{ *system }

func (d deaf) Look(ctx context.Context, _ string) (discovery.Standing, error) {
	_ = d.at("look")
	<-ctx.Done()
	return discovery.Standing{}, ctx.Err()
}

func TestACallIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", deaf{s})
		pass(time.Minute)
		if calls, _ := s.counts(); calls < 10 || calls > 60 {
			t.Errorf("%d calls in a minute", calls)
		}
		if a.count(discovery.Failed) < 10 {
			t.Errorf("%d reports", a.count(discovery.Failed))
		}
		begun := time.Now()
		a.end()
		if err := <-a.ended; err != nil || time.Since(begun) > discovery.DefaultTimeout {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		a.ended <- nil
	})
}

func TestPanicsAreShielded(t *testing.T) {
	for name, f := range map[string]func(){
		"panic":  func() { panic("at the disco") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{}, newStage(t)
				s.fail(func(string) error { defer f(); return nil })
				a := g.join("a", watched{s})
				pass(10 * time.Second)
				s.fail(nil)
				pass(2 * time.Second)
				demand(t, s, "a")
				a.mu.Lock()
				defer a.mu.Unlock()
				if len(a.all) == 0 || !errors.Is(a.all[0].Err, discovery.ErrPanicked) {
					t.Errorf("%+v", a.all)
				}
			})
		})
	}
}

func TestAPanicOfReportIsShielded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{}
		e := leadertest.New(t, leader.ElectionConfig{Group: "reports", TTL: ttl, AcquireGrace: leader.GraceOff})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- discovery.Keep(ctx, e, s, discovery.Options{Report: func(discovery.Event) { panic("no") }})
		}()
		e.Promote()
		synctest.Wait()
		demand(t, s, "self")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		demand(t, s, "")
	})
}

func TestKeepRefusesWhatItCannotKeep(t *testing.T) {
	err := discovery.Keep(t.Context(), nil, nil, discovery.Options{Interval: -1, Timeout: -1})
	if !errors.Is(err, leader.ErrInvalidConfig) {
		t.Fatal(err)
	}
}

func TestKeepEndsWithTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", s)
		demand(t, s, "a")
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
		a.ended <- nil
		demand(t, s, "")
	})
}

func TestAQuietGroupCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leads, follows := &system{}, &system{}
		g := newStage(t)
		g.join("a", leads)
		g.join("b", follows)
		pass(time.Hour)
		calls, writes := leads.counts()
		if writes != 1 || calls > 4100 {
			t.Errorf("the leader made %d calls and %d writes in an hour", calls, writes)
		}
		if calls, writes := follows.counts(); writes != 0 || calls > 170 {
			t.Errorf("the follower made %d calls and %d writes in an hour", calls, writes)
		}
	})
}
