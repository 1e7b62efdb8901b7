package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// claimTimes lets every claim be refused for an hour, and returns when each was
// made.
func claimTimes(t *testing.T, retry leader.RetryConfig) (sent []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Refuse: c.Op == faultstore.CompareAndSwap}
		})
		begun, cfg := time.Now(), config("a")
		cfg.RetryConfig = retry
		cfg.Hooks.Call = func(c leader.Call) {
			if c.Kind == "acquire" {
				sent = append(sent, c.Sent.Sub(begun))
			}
		}
		a := start(t, f.Client("a"), cfg)
		time.Sleep(time.Hour)
		mustNotLead(t, a)
	})
	return sent
}

func TestDelaysGrowFromTheInitialToTheMaximalBackoffWithinTheJitter(t *testing.T) {
	retry := leader.RetryConfig{
		InitialBackoff: 100 * time.Millisecond, BackoffMultiplier: 3, MaxBackoff: 5 * time.Second, Jitter: 0.2,
	}
	sent := claimTimes(t, retry)
	if len(sent) < int(time.Hour/(6*time.Second)) {
		t.Fatalf("%d claims in an hour: it gave up", len(sent))
	}
	varied := false
	for i := 1; i < len(sent); i++ {
		delay := (sent[i] - sent[i-1]).Seconds()
		want := min(0.1*math.Pow(3, float64(i-1)), 5)
		if delay < want*0.8-1e-6 || delay > want*1.2+1e-6 {
			t.Fatalf("delay %d lasted %.3f s, want %.3f s ± 20 %%", i, delay, want)
		}
		varied = varied || math.Abs(delay-want) > want/100
	}
	if !varied {
		t.Error("no delay varied")
	}
}

func TestClaimThatFailedMaxAttemptsTimesRestsForMaxBackoffAndGoesOn(t *testing.T) {
	sent := claimTimes(t, leader.RetryConfig{
		MaxAttempts: 3, InitialBackoff: time.Second, BackoffMultiplier: 1, MaxBackoff: time.Minute, Jitter: 1e-9,
	})
	const round = 2*time.Second + time.Minute
	for i, at := range sent {
		want := time.Duration(i/3)*round + time.Duration(i%3)*time.Second
		if d := (at - want).Abs(); d > time.Millisecond {
			t.Fatalf("claim %d at %v, want %v", i, at, want)
		}
	}
	if len(sent) < 3*int(time.Hour/round) {
		t.Errorf("%d claims in an hour", len(sent))
	}
}

func TestConnectionTimeoutBoundsEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 200 * time.Millisecond
		took := map[string]time.Duration{}
		var conflict atomic.Bool
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if conflict.Load() { // after which the record is read
				return faultstore.Fate{Conflict: c.Op == faultstore.CompareAndSwap, Lose: c.Op != faultstore.CompareAndSwap}
			}
			return faultstore.Fate{}
		})
		cfg := config("a")
		cfg.ConnectionTimeout = limit
		cfg.Hooks.Call = func(c leader.Call) { took[c.Kind] = max(took[c.Kind], c.Took) }
		a := start(t, f.Client("a"), cfg)
		mustLead(t, a)
		f.BlackHole("a")
		time.Sleep(10 * ttl)
		f.Heal("a")
		time.Sleep(wait)
		mustLead(t, a)
		conflict.Store(true)
		time.Sleep(ttl)
		synctest.Wait()
		for _, kind := range []string{"renew", "release", "read"} {
			if took[kind] != limit {
				t.Errorf("the longest %s took %v", kind, took[kind])
			}
		}
	})
}

// A denying store refuses writes for good while it is told to.
type denying struct {
	store.Store
	denies atomic.Bool
	asked  atomic.Int64
}

func (d *denying) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if d.denies.Load() {
		d.asked.Add(1)
		return 0, fmt.Errorf("%w: may not publish to $KV.b.g: grant it", store.ErrPermanent)
	}
	return d.Store.CompareAndSwap(ctx, w)
}

// What a person has to repair may be repaired at any time: a running election
// goes on asking, slowly, and says in its status and its log what it waits for.
func TestPermanentFaultOfARunningElectionIsToldAndRetriedWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		st, cfg := &denying{Store: memstore.New()}, config("a")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, nil)) // INFO
		cfg.RetryConfig = leader.RetryConfig{MaxBackoff: 30 * time.Second}
		a := start(t, st, cfg)
		mustLead(t, a)
		st.denies.Store(true)
		time.Sleep(time.Hour)
		mustNotLead(t, a)
		if s := a.Status(); !errors.Is(s.LastError, store.ErrPermanent) || !strings.Contains(s.LastError.Error(), "grant it") ||
			time.Since(s.LastErrorAt) > time.Minute {
			t.Errorf("the status tells %v of %v", s.LastError, s.LastErrorAt)
		}
		if n := st.asked.Load(); n < 60 || n > 200 {
			t.Errorf("asked %d times in an hour", n)
		}
		warned := false
		for _, line := range book.lines(t, "call") {
			warned = warned || line["level"] == "WARN" && strings.Contains(fmt.Sprint(line["error"]), "grant it")
		}
		if !warned {
			t.Errorf("no warning says what to do:\n%.2000s", book.text())
		}
		st.denies.Store(false)
		time.Sleep(2 * cfg.RetryConfig.MaxBackoff)
		mustLead(t, a)
		if s := a.Status(); s.LastError != nil {
			t.Errorf("still tells %v", s.LastError)
		}
	})
}

func TestTransientFaultsOfAnyLengthAreOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		f := network(t, func(faultstore.Call) faultstore.Fate { return faultstore.Fate{Refuse: refuse.Load()} })
		a := start(t, f.Client("a"), config("a"))
		for _, outage := range []time.Duration{heartbeat * 3 / 2, time.Minute, 3 * time.Hour} {
			mustLead(t, a)
			refuse.Store(true)
			time.Sleep(outage)
			if s := a.Status(); !errors.Is(s.LastError, store.ErrTransient) {
				t.Errorf("after %v the status tells %v", outage, s.LastError)
			}
			refuse.Store(false)
			time.Sleep(2 * ttl)
		}
		mustLead(t, a)
	})
}
