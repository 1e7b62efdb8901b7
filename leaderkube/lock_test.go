package leaderkube_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// An electionRecord has the fields of client-go's LeaderElectionRecord. The
// tests with client-go itself are in test/labs/compare, where it is a dependency.
type electionRecord struct {
	HolderIdentity       string    `json:"holderIdentity"`
	LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
	AcquireTime          time.Time `json:"acquireTime"`
	RenewTime            time.Time `json:"renewTime"`
	LeaderTransitions    int       `json:"leaderTransitions"`
	Strategy             string    `json:"strategy"`
}

type lock = leaderkube.Lock[electionRecord]

// The lease of the tests, and a timing that uses all of its room: 9 s of trust
// less 1 s between two renewals.
const (
	ttl   = 10 * time.Second
	beat  = time.Second
	drift = ttl / 10
)

var timing = leaderkube.Timing{LeaseDuration: 12 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 2 * time.Second}

// A side is one candidate, with the answers of its lock.
type side struct {
	*lock
	t     *testing.T
	store *leadertest.Store
	hangs bool // its loop does not end
}

func newGroup(t *testing.T) *leadertest.Group {
	t.Helper()
	return leadertest.NewGroup(t, leader.ElectionConfig{TTL: ttl, HeartbeatInterval: beat, AcquireGrace: leader.GraceOff})
}

func newSide(t *testing.T, g *leadertest.Group, id string) *side {
	t.Helper()
	l, err := leaderkube.NewWithStore[electionRecord](g.Store(id), g.Config(id), leaderkube.Options{Timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	s := &side{lock: l, t: t, store: g.Store(id)}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); errors.Is(err, leader.ErrDemoteTimeout) != s.hangs {
			t.Error(err)
		}
	})
	return s
}

// renewal is what client-go writes.
func (s *side) renewal() electionRecord {
	return electionRecord{HolderIdentity: s.Identity(), LeaseDurationSeconds: 12}
}

// lead asks until the lock is given, as client-go does, and takes it.
func (s *side) lead(ctx context.Context) {
	s.t.Helper()
	for {
		r, _, err := s.Get(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if r.HolderIdentity == s.Identity() {
			break
		}
	}
	s.renew()
}

func (s *side) renew() {
	s.t.Helper()
	if err := s.Update(s.t.Context(), s.renewal()); err != nil {
		s.t.Fatal(err)
	}
}

// refused demands that client-go hears that it does not hold the lock.
func (s *side) refused() {
	s.t.Helper()
	if err := s.Update(s.t.Context(), s.renewal()); !errors.Is(err, leaderkube.ErrNotHeld) || !errors.Is(err, leader.ErrNotLeader) {
		s.t.Errorf("a renewal: %v", err)
	}
	if r, _, err := s.Get(s.t.Context()); err != nil || r.HolderIdentity == s.Identity() {
		s.t.Errorf("held by %+v, %v", r, err)
	}
}

func TestTheLockIsHeldOnlyWhileTheTrustWindowIsLongEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := newSide(t, g, "a")
		a.lead(t.Context())
		term := a.Term()
		for range 20 {
			time.Sleep(timing.RetryPeriod)
			a.renew()
		}
		if !a.IsLeader() || a.Term() != term || term.Number == 0 {
			t.Errorf("leads %v, in term %v after %v", a.IsLeader(), a.Term(), term)
		}
		time.Sleep(beat / 2) // between two renewals
		a.store.CutOff()
		given := make(chan context.Context, 1)
		go a.Leading(func(ctx context.Context) {
			given <- ctx
			<-ctx.Done()
		})(t.Context())
		working := <-given
		synctest.Wait() // for a renewal that was sent at this very moment
		until := a.Status().TrustUntil
		// The time left has to be enough for a loop whose renewals are refused
		// from now on.
		time.Sleep(time.Until(until) - timing.RetryPeriod - timing.RenewDeadline)
		a.renew()
		time.Sleep(time.Millisecond)
		a.refused()
		if !a.IsLeader() {
			t.Error("the term is over before its window")
		}
		time.Sleep(time.Until(until))
		if working.Err() == nil || a.IsLeader() || !a.Term().IsZero() {
			t.Error("the window is closed, and the lock reports that it is held")
		}
		a.store.Reconnect()
		a.RecordEvent("stopped leading")
	})
}

// client-go takes a record for expired that has stayed the same for too long.
func TestARecordIsNewsEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSide(t, newGroup(t), "a")
		a.lead(t.Context())
		_, first, _ := a.Get(t.Context())
		_, second, err := a.Get(t.Context())
		if err != nil || bytes.Equal(first, second) {
			t.Errorf("%s, and again %s, %v", first, second, err)
		}
		a.RecordEvent("stopped leading")
	})
}

func TestARenewalThatIsLateCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := newSide(t, g, "a")
		a.lead(t.Context())
		a.store.CutOff()
		time.Sleep(4 * time.Second)
		a.refused()
		a.store.Reconnect()
		time.Sleep(beat + ttl/4) // a renewal that is under way is given up
		a.renew()
		a.RecordEvent("stopped leading")
	})
}

func TestAFollowerIsGivenTheLockAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, b := newSide(t, g, "a"), newSide(t, g, "b")
		a.lead(t.Context())
		r, raw, err := b.Get(t.Context())
		if err != nil || r.HolderIdentity != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
		given := make(chan time.Time)
		go func() {
			r, again, err := b.Get(t.Context()) // waits, since Get has already returned a as the leader
			if err != nil || r.HolderIdentity != "b" || bytes.Equal(again, raw) {
				t.Errorf("%+v (%s), %v", r, again, err)
			}
			given <- time.Now()
		}()
		for range 30 {
			time.Sleep(timing.RetryPeriod)
			a.renew()
		}
		time.Sleep(beat / 2) // a release that meets a renewal is repeated
		left := time.Now()
		if err := a.Update(t.Context(), electionRecord{LeaseDurationSeconds: 1}); err != nil {
			t.Fatal(err)
		}
		if took := (<-given).Sub(left); took > 100*time.Millisecond {
			t.Errorf("given after %v", took)
		}
		b.renew()
		if a.IsLeader() || !b.IsLeader() {
			t.Errorf("a %v, b %v", a.IsLeader(), b.IsLeader())
		}
	})
}

func TestACampaignEndsWithItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, b := newSide(t, g, "a"), newSide(t, g, "b")
		a.lead(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		if _, _, err := b.Get(ctx); err != nil {
			t.Fatal(err)
		}
		cancel() // during a pause of client-go
		synctest.Wait()
		if err := a.Update(t.Context(), electionRecord{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * ttl)
		if s := b.Status(); s.State != leader.StateStopped {
			t.Errorf("b campaigns on: %+v", s)
		}
		if _, _, err := b.Get(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		a.RecordEvent("stopped leading")
		a.lead(t.Context()) // the same lock, for a second loop
		a.renew()
	})
}

func TestARecordIsReleasedOnlyWhenTheLoopHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := newSide(t, g, "a")
		a.lead(t.Context())
		given := make(chan context.Context, 1)
		finish, finished := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(finished)
			a.Leading(func(ctx context.Context) {
				given <- ctx
				<-ctx.Done()
				<-finish
			})(t.Context())
		}()
		working := <-given
		if term, ok := leader.TermFromContext(working); !ok || term != a.Term() {
			t.Errorf("term %v, %v", term, ok)
		}
		heir := g.Join("b")
		if err := heir.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := a.Context(t.Context())
		go g.Promote("b") // asks a to step down
		synctest.Wait()
		var loss *leader.LossError
		if ctx.Err() == nil || !errors.As(context.Cause(ctx), &loss) || working.Err() == nil || !errors.As(context.Cause(working), &loss) {
			t.Errorf("the loop's context %v (%v), the work's %v (%v)", ctx.Err(), context.Cause(ctx), working.Err(), context.Cause(working))
		}
		a.refused()
		time.Sleep(time.Second)
		if heir.IsLeader() {
			t.Error("the next one leads while client-go's loop goes on")
		}
		a.RecordEvent("stopped leading")
		time.Sleep(time.Second)
		if heir.IsLeader() {
			t.Error("the next one leads while the work goes on")
		}
		close(finish)
		<-finished
		time.Sleep(100 * time.Millisecond)
		if !heir.IsLeader() {
			t.Error("the next one does not lead")
		}
	})
}

func TestUnreleasedLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, b := newSide(t, g, "a"), newSide(t, g, "b")
		a.lead(t.Context())
		a.RecordEvent("stopped leading") // without ReleaseOnCancel
		synctest.Wait()
		if a.IsLeader() {
			t.Error("leads on without a loop")
		}
		begun := time.Now()
		b.lead(t.Context())
		if waited := time.Since(begun); waited < ttl {
			t.Errorf("another leads %v later, and the work may go on", waited)
		}
	})
}

func TestALoopThatHangsLosesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, b := newSide(t, g, "a"), newSide(t, g, "b")
		a.hangs = true
		a.lead(t.Context())
		ctx := a.Context(t.Context())
		begun := time.Now()
		<-ctx.Done()
		if after := time.Since(begun); after != timing.LeaseDuration {
			t.Errorf("lost after %v", after)
		}
		b.lead(t.Context())
		if after := time.Since(begun); after < timing.LeaseDuration+ttl-beat {
			t.Errorf("another leads after %v", after)
		}
		a.refused()
	})
}

func TestATermIsNotForTheLoopOfAnEarlierOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := newSide(t, g, "a")
		a.lead(t.Context())
		ctx := a.Context(t.Context())
		g.DeleteRecord()
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the context outlives a term whose record was deleted")
		}
		// Longer than DemoteTimeout and a lease: the election may lead again.
		for range 40 {
			a.refused()
			time.Sleep(time.Second)
		}
		a.RecordEvent("stopped leading")
		a.lead(t.Context())
	})
}

// A loop may end while its term still lasts: what is bound for the next loop
// then ends with that one's term.
func TestTheNextLoopOutlivesTheTermOfTheLoopBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := newSide(t, g, "a")
		a.lead(t.Context())
		a.RecordEvent("stopped leading")
		next := a.Context(t.Context())
		synctest.Wait()
		if next.Err() != nil {
			t.Fatalf("it has ended with the term before: %v", context.Cause(next))
		}
		a.lead(t.Context())
		g.DeleteRecord()
		synctest.Wait()
		if next.Err() == nil {
			t.Error("it outlives its own term")
		}
	})
}

func TestAnEarlierProcessOfThisNameIsNotTakenForThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		before := g.Join("a")
		if err := before.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Leader()
		before.CutOff() // it dies
		l, err := leaderkube.NewWithStore[electionRecord](g.Store("of a new process"), g.Config("a"), leaderkube.Options{Timing: timing})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		r, _, err := l.Get(t.Context())
		if err != nil || r.HolderIdentity != "a" || time.Since(begun) < ttl {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestALoopWithAnotherTimingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSide(t, newGroup(t), "a")
		a.lead(t.Context())
		wrong := a.renewal()
		wrong.LeaseDurationSeconds = 15
		if err := a.Update(t.Context(), wrong); !errors.Is(err, leaderkube.ErrTiming) || !strings.Contains(err.Error(), "15 s") {
			t.Error(err)
		}
		ask := func(deadline time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			return a.Update(ctx, a.renewal())
		}
		if err := ask(timing.RenewDeadline); err != nil {
			t.Error(err)
		}
		// Once seen it is not forgotten when the same renewal asks again.
		for _, deadline := range []time.Duration{10 * time.Second, 5 * time.Second} {
			if err := ask(deadline); !errors.Is(err, leaderkube.ErrTiming) {
				t.Errorf("a RenewDeadline of %v: %v", deadline, err)
			}
		}
		if err := a.Update(t.Context(), electionRecord{HolderIdentity: "b", LeaseDurationSeconds: 12}); !errors.Is(err, leaderkube.ErrNotHeld) {
			t.Error(err)
		}
	})
}

func TestFaultsOfALockAreNamed(t *testing.T) {
	st := memstore.New()
	cfg := leader.ElectionConfig{Group: "g", InstanceID: "a", TTL: ttl, HeartbeatInterval: beat}
	short := cfg
	short.DemoteTimeout = time.Second
	unnamed := cfg
	unnamed.InstanceID = ""
	for name, c := range map[string]struct {
		cfg  leader.ElectionConfig
		t    leaderkube.Timing
		want []string
	}{
		"client-go's defaults, and a short lease": {cfg, leaderkube.Timing{}, []string{"RenewDeadline 10s", "(8s)"}},
		"one second too long":                     {cfg, leaderkube.Timing{LeaseDuration: 12 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second}, []string{"(8s)"}},
		"a short DemoteTimeout":                   {short, timing, []string{"DemoteTimeout (1s)"}},
		"what client-go refuses": {cfg, leaderkube.Timing{LeaseDuration: time.Millisecond, RenewDeadline: time.Second, RetryPeriod: time.Second},
			[]string{"1.2 × RetryPeriod", "more than RenewDeadline", "at least a second"}},
		"nothing": {cfg, leaderkube.Timing{LeaseDuration: time.Second}, []string{"RetryPeriod 0s must be positive"}},
		"no name": {unnamed, timing, []string{"InstanceID"}},
		"both":    {unnamed, leaderkube.Timing{LeaseDuration: time.Second}, []string{"InstanceID", "RetryPeriod 0s must be positive"}},
	} {
		_, err := leaderkube.NewWithStore[electionRecord](st, c.cfg, leaderkube.Options{Timing: c.t})
		if !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", name, want, err)
			}
		}
	}
	if _, err := leaderkube.NewWithStore[string](st, cfg, leaderkube.Options{Timing: timing}); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("a malformed record: %v", err)
	}
	if _, err := leaderkube.New[electionRecord](nil, cfg, leaderkube.Options{}); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("no connection: %v", err)
	}
}

func TestTimingsForAConfigurationSuitIt(t *testing.T) {
	st := memstore.New()
	for _, lease := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 20 * time.Second, time.Hour} {
		for _, drift := range []float64{0, 0.01, 0.3} {
			cfg := leader.ElectionConfig{Group: "g", InstanceID: "a", TTL: lease, HeartbeatInterval: lease / 3, ClockDrift: drift}
			timing := leaderkube.TimingFor(cfg)
			l, err := leaderkube.NewWithStore[electionRecord](st, cfg, leaderkube.Options{Timing: timing})
			if err != nil || l.Timing() != timing || timing.RenewDeadline+timing.RetryPeriod > 2*time.Second {
				t.Errorf("%v, %v: %+v: %v", lease, drift, timing, err)
			}
		}
	}
	for _, demote := range []time.Duration{10 * time.Millisecond, time.Second, 1999 * time.Millisecond, 3 * time.Second} {
		cfg := leader.ElectionConfig{Group: "g", InstanceID: "a", TTL: 20 * time.Second, HeartbeatInterval: 4 * time.Second, DemoteTimeout: demote}
		if _, err := leaderkube.NewWithStore[electionRecord](st, cfg, leaderkube.Options{Timing: leaderkube.TimingFor(cfg)}); err != nil {
			t.Errorf("DemoteTimeout %v: %v", demote, err)
		}
	}
	cfg := leader.ElectionConfig{Group: "g", InstanceID: "a"}.WithProfile(leader.ProfileStable)
	if l, err := leaderkube.NewWithStore[electionRecord](st, cfg, leaderkube.Options{}); err != nil || l.Timing() != leaderkube.DefaultTiming() {
		t.Errorf("client-go's defaults with ProfileStable: %v", err)
	}
}

func TestALockThatWasClosedIsNotHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, b := newSide(t, g, "a"), newSide(t, g, "b")
		a.lead(t.Context())
		ctx := a.Context(t.Context())
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ctx.Err() == nil || a.Context(t.Context()).Err() == nil {
			t.Error("a context outlives its lock")
		}
		if _, _, err := a.Get(t.Context()); !errors.Is(err, leaderkube.ErrClosed) {
			t.Error(err)
		}
		if err := a.Update(t.Context(), a.renewal()); !errors.Is(err, leaderkube.ErrNotHeld) {
			t.Error(err)
		}
		begun := time.Now()
		b.lead(t.Context())
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("released, and another leads after %v", waited)
		}
	})
}

func TestAnElectionThatEndsByItselfIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		cfg := g.Config("a")
		cfg.Logger = slog.New(slog.DiscardHandler)
		cfg.Hooks.Transition = func(tr leader.Transition) {
			if tr.To == leader.StateCandidate {
				runtime.Goexit() // as if this library had panicked
			}
		}
		l, err := leaderkube.NewWithStore[electionRecord](g.Store("a"), cfg, leaderkube.Options{Timing: timing})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Get(t.Context()); !errors.Is(err, leader.ErrPanicked) {
			t.Error(err)
		}
		_ = l.Close(t.Context())
	})
}
