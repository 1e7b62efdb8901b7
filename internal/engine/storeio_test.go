package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A flicker is a store whose connection comes back while its state is asked for
// the first time.
type flicker struct {
	store.Store
	asked bool
	tell  func(store.ConnState)
}

func (f *flicker) OnConnState(tell func(store.ConnState)) (stop func()) {
	f.tell = tell
	return func() {}
}

func (f *flicker) ConnState() store.ConnState {
	if f.asked {
		return store.Connected
	}
	f.asked = true
	f.tell(store.Connected)
	return store.Disconnected
}

// Else a candidate would count as disconnected until the next interruption, and
// with a DisconnectGracePeriod lose each term as soon as it is won.
func TestConnectionThatReturnsDuringTheFirstLookIsNotMissed(t *testing.T) {
	e := New(&flicker{Store: memstore.New()}, testConfig())
	defer e.io.followConn(func() bool { return true })()
	messages, _, _ := e.inbox.take()
	if len(messages) == 0 || messages[len(messages)-1].event.Kind != machine.ConnUp {
		t.Errorf("the last news is not that the connection is up: %+v", messages)
	}
}

// An aged store reports its age as often as the test allows, and then fails.
type aged struct {
	store.Store
	ages []time.Duration
}

func (s *aged) Check(context.Context, store.CheckRequest) (store.Report, error) {
	if len(s.ages) == 0 {
		return store.Report{}, store.ErrPermanent
	}
	age := s.ages[0]
	s.ages = s.ages[1:]
	return store.Report{Age: age}, nil
}

// A store may be made again while the first claim is under way. So the
// candidate asks for its age again, and without an answer waits for a lease.
func TestAFirstClaimIsPromotedByTheAgeThatFollowsIt(t *testing.T) {
	wait := machine.Wait(3*time.Second, leadership.DefaultDrift)
	for name, c := range map[string]struct {
		ages  []time.Duration
		grace Grace
		want  time.Duration
	}{
		"as old as before":        {[]time.Duration{time.Hour, time.Hour}, GraceAuto, 0},
		"made a short time ago":   {[]time.Duration{time.Hour, time.Second}, GraceAuto, wait - time.Second},
		"age not told again":      {[]time.Duration{time.Hour, 0}, GraceAuto, wait},
		"not allowed to ask":      {[]time.Duration{time.Hour}, GraceAuto, wait},
		"age never told":          {[]time.Duration{0}, GraceAuto, 0},
		"nobody was there before": {[]time.Duration{time.Hour}, GraceOff, 0},
		"cool-down":               {[]time.Duration{time.Hour, time.Hour}, GraceOn, wait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &aged{memstore.New(), c.ages}
				e := New(st, testConfig(func(cfg *Config) { cfg.Grace = c.grace }))
				begun := time.Now()
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				for !e.IsLeader() && time.Since(begun) < time.Minute {
					time.Sleep(time.Millisecond)
				}
				if got := time.Since(begun).Round(100 * time.Millisecond); got != c.want {
					t.Errorf("it leads after %v, want %v", got, c.want)
				}
				if len(st.ages) > 0 {
					t.Errorf("%d ages were not asked for", len(st.ages))
				}
				if err := e.Stop(t.Context(), StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
