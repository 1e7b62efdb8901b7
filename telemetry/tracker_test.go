package telemetry_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/telemetry"
)

const (
	ttl       = 3 * time.Second
	heartbeat = time.Second
	// window is TTL × (1 − ClockDrift).
	window = 2700 * time.Millisecond
)

// A ledger is a sink that remembers.
type ledger struct {
	mu     sync.Mutex
	counts map[string]int
	values map[string][]float64
	// gauges, if set, asks the tracker.
	gauges func(func(telemetry.Metric, float64, ...string))
}

func key(m telemetry.Metric, labels []string) string {
	return strings.Join(append([]string{m.Definition().Name}, labels...), " ")
}

func (l *ledger) Add(m telemetry.Metric, labels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[key(m, labels)]++
}

func (l *ledger) Observe(m telemetry.Metric, v float64, labels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[key(m, labels)] = append(l.values[key(m, labels)], v)
}

func (l *ledger) gauge(name string) float64 {
	value := math.NaN()
	l.gauges(func(m telemetry.Metric, v float64, labels ...string) {
		if key(m, labels) == name {
			value = v
		}
	})
	return value
}

func (l *ledger) count(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[name]
}

func (l *ledger) demandCount(t *testing.T, name string, want int) {
	t.Helper()
	if got := l.count(name); got != want {
		t.Errorf("%s = %d, want %d; all: %v", name, got, want, l.all())
	}
}

func (l *ledger) all() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

// demandMargin demands that the last renewal was acknowledged so long after its
// predecessor left.
func (l *ledger) demandMargin(t *testing.T, after time.Duration) {
	t.Helper()
	want := 1 - after.Seconds()/window.Seconds()
	if got := l.last(t, "election.renewal.margin_ratio"); math.Abs(got-want) > 1e-9 {
		t.Errorf("margin %v, want %v", got, want)
	}
}

func (l *ledger) demandGauge(t *testing.T, name string, want float64) {
	t.Helper()
	if got := l.gauge(name); math.Abs(got-want) > 1e-9 {
		t.Errorf("%s = %v, want %v", name, got, want)
	}
}

func (l *ledger) lowest(name string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Min(l.values[name])
}

// marginBefore is the margin of the latest renewal of e, which took no time, if
// the window before it ended at until.
func (l *ledger) marginBefore(until time.Time, e leader.Election) float64 {
	return until.Sub(e.Status().LastHeartbeat).Seconds() / window.Seconds()
}

func (l *ledger) last(t *testing.T, name string) float64 {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	values := l.values[name]
	if len(values) == 0 {
		t.Fatalf("nothing was observed of %s, but: %v", name, l.values)
	}
	return values[len(values)-1]
}

// made returns a candidate whose doings the ledger keeps. It is not started.
func made(t *testing.T, f *faultstore.Faults, id string, adapt ...func(*leader.ElectionConfig)) (leader.Election, *ledger) {
	t.Helper()
	l := &ledger{counts: map[string]int{}, values: map[string][]float64{}}
	cfg := leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: ttl, HeartbeatInterval: heartbeat, AcquireGrace: leader.GraceOff, DeleteOnStop: true,
		RetryConfig: leader.RetryConfig{Jitter: 1e-9},
		Hooks: leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
			tracker := telemetry.Track(e, cfg, l)
			l.gauges = tracker.Gauges
			return tracker.Hooks()
		}},
	}
	for _, a := range adapt {
		a(&cfg)
	}
	e, err := leader.NewElectionWithStore(f.Client(id), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e, l
}

// begin is made, and starts it.
func begin(t *testing.T, f *faultstore.Faults, id string, adapt ...func(*leader.ElectionConfig)) (leader.Election, *ledger) {
	t.Helper()
	e, l := made(t, f, id, adapt...)
	start(t, e)
	return e, l
}

func start(t *testing.T, e leader.Election) {
	t.Helper()
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// inBubble runs a test in virtual time, on a store whose policy decides what
// happens to a candidate's writes.
func inBubble(t *testing.T, policy faultstore.Policy, test func(t *testing.T, f *faultstore.Faults)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(faultstore.Options{Policy: policy})
		defer f.Close()
		test(t, f)
	})
}

func stop(t *testing.T, e leader.Election) {
	t.Helper()
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// write makes a policy for the nth write, counted from 0.
func write(n uint64, fate faultstore.Fate) faultstore.Policy {
	return func(c faultstore.Call) faultstore.Fate {
		if c.Op == faultstore.CompareAndSwap && c.N == n {
			return fate
		}
		return faultstore.Fate{}
	}
}

func TestATermIsMeasuredFromItsClaimToItsEnd(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		e, l := begin(t, f, "a")
		e.OnDemote(func() {})
		term := e.Term()
		l.demandGauge(t, "election.is_leader", 1)
		l.demandGauge(t, "election.connection.status", 1)
		l.demandGauge(t, "election.trust.window", window.Seconds())
		l.demandGauge(t, "election.trust.remaining", window.Seconds())
		l.demandGauge(t, "election.term", float64(term.Number))
		time.Sleep(10*heartbeat + heartbeat/2)
		l.demandGauge(t, "election.trust.remaining", (window - heartbeat/2).Seconds())
		stop(t, e)
		l.demandGauge(t, "election.is_leader", 0)
		l.demandGauge(t, "election.trust.remaining", 0)
		l.demandGauge(t, "election.term", float64(term.Number))
		l.demandCount(t, "election.acquire.attempts ok", 1)
		l.demandCount(t, "election.transitions CANDIDATE LEADER", 1)
		l.demandCount(t, "election.terms.ended stopped", 1)
		if got := l.last(t, "election.leader.duration"); got != 10.5 {
			t.Errorf("led for %v s, want 10.5", got)
		}
		if got := len(l.values["election.heartbeat.duration ok"]); got != 10 {
			t.Errorf("%d renewals, want 10", got)
		}
		l.demandMargin(t, heartbeat)
		for name := range l.all() {
			if strings.HasPrefix(name, "election.failures") {
				t.Errorf("an election without faults counted %s", name)
			}
		}
	})
}

// The watch may report a release before its answer comes. The election ends by
// that, and takes the release for done, not for one without an answer.
func TestReleaseSeenBeforeItsAnswerSucceeds(t *testing.T) {
	inBubble(t, write(1, faultstore.Fate{Reply: time.Hour}), func(t *testing.T, f *faultstore.Faults) {
		e, l := begin(t, f, "a")
		begun := time.Now()
		stop(t, e)
		if took := time.Since(begun); took > 0 {
			t.Errorf("Stop waited %v for the answer", took)
		}
		if n := l.count("election.failures unknown"); n > 0 || e.Status().LastError != nil {
			t.Errorf("%d failures, last error %v", n, e.Status().LastError)
		}
	})
}

func TestLeadershipIsNotShownLongerThanItIsTrusted(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		e, l := begin(t, f, "a")
		time.Sleep(heartbeat / 2)
		f.BlackHole("a")
		time.Sleep(window - heartbeat/2 - time.Nanosecond)
		l.demandGauge(t, "election.is_leader", 1)
		time.Sleep(time.Nanosecond)
		// The election's goroutine has not been let run since: the gauge looks
		// at the window itself.
		l.demandGauge(t, "election.is_leader", 0)
		l.demandGauge(t, "election.trust.remaining", 0)
		time.Sleep(time.Minute)
		l.demandCount(t, "election.terms.ended trust-expired", 1)
		if got := l.last(t, "election.leader.duration"); got != window.Seconds() {
			t.Errorf("led for %v s, want %v", got, window.Seconds())
		}
		if l.count("election.failures unknown") == 0 {
			t.Errorf("no renewal without an answer was counted: %v", l.all())
		}
		f.Heal("a")
		stop(t, e)
	})
}

func TestAStalledProcessDidNotLeadWhileItWasStalled(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		stalled := false
		e, l := begin(t, f, "a", func(c *leader.ElectionConfig) {
			c.Hooks = leader.JoinHooks(c.Hooks, leader.Hooks{Call: func(c leader.Call) {
				if c.Kind == "renew" && !stalled {
					stalled = true
					time.Sleep(time.Minute)
				}
			}})
		})
		time.Sleep(2 * time.Minute)
		// The claim's window passed while its first renewal waited to be taken
		// in.
		l.demandCount(t, "election.terms.ended trust-expired", 1)
		if got := l.last(t, "election.leader.duration"); got > (heartbeat + window).Seconds() {
			t.Errorf("led for %v s", got)
		}
		stop(t, e)
	})
}

func TestALostConnectionIsShown(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		e, l := begin(t, f, "a")
		f.Partition("a")
		l.demandGauge(t, "election.connection.status", 0)
		f.Heal("a")
		l.demandGauge(t, "election.connection.status", 1)
		stop(t, e)
	})
}

func TestALostAnswerThatTheWatchMakesUpForCostsNoMargin(t *testing.T) {
	// Write 0 is the claim, 1 the renewal whose answer is lost.
	inBubble(t, write(1, faultstore.Fate{LoseReply: true}), func(t *testing.T, f *faultstore.Faults) {
		e, l := begin(t, f, "a")
		time.Sleep(3*heartbeat + heartbeat/2)
		l.demandCount(t, "election.failures unknown", 1)
		l.demandMargin(t, heartbeat)
		if got := l.lowest("election.renewal.margin_ratio"); got < 1-1.01*heartbeat.Seconds()/window.Seconds() {
			t.Errorf("a margin of %v was observed", got)
		}
		stop(t, e)
	})
}

func TestAWriteThatWasResolvedCountsFromItsDeparture(t *testing.T) {
	deaf := func(c faultstore.Call) faultstore.Fate {
		if c.Op == faultstore.Event {
			return faultstore.Fate{Lose: true}
		}
		return write(1, faultstore.Fate{LoseReply: true})(c)
	}
	inBubble(t, deaf, func(t *testing.T, f *faultstore.Faults) {
		e, l := begin(t, f, "a")
		// The answer is awaited for TTL/4, and the record read then.
		time.Sleep(heartbeat + ttl/4 + 200*time.Millisecond)
		l.demandCount(t, "election.lost_acknowledgements.resolved renew", 1)
		until := e.TrustUntil()
		time.Sleep(heartbeat)
		synctest.Wait()
		if got, want := l.last(t, "election.renewal.margin_ratio"), l.marginBefore(until, e); math.Abs(got-want) > 1e-9 {
			t.Errorf("margin %v, want %v", got, want)
		}
		stop(t, e)
	})
}

func TestASlowRenewalLeavesLessMargin(t *testing.T) {
	slow := 600 * time.Millisecond
	inBubble(t, write(1, faultstore.Fate{Reply: slow}), func(t *testing.T, f *faultstore.Faults) {
		e, l := begin(t, f, "a")
		time.Sleep(heartbeat + slow)
		synctest.Wait()
		if got := l.last(t, "election.heartbeat.duration ok"); got != slow.Seconds() {
			t.Errorf("the renewal took %v s, want %v", got, slow.Seconds())
		}
		l.demandMargin(t, heartbeat+slow)
		stop(t, e)
	})
}

func TestARaceThatIsLostIsContentionAndNoFailure(t *testing.T) {
	slow := func(c faultstore.Call) faultstore.Fate {
		if c.Op == faultstore.CompareAndSwap {
			return faultstore.Fate{Delay: time.Millisecond}
		}
		return faultstore.Fate{}
	}
	inBubble(t, slow, func(t *testing.T, f *faultstore.Faults) {
		ledgers := map[string]*ledger{}
		var all []leader.Election
		for _, id := range []string{"a", "b", "c"} {
			e, l := begin(t, f, id)
			all, ledgers[id] = append(all, e), l
		}
		time.Sleep(ttl)
		lost := 0
		for id, l := range ledgers {
			lost += l.count("election.contention")
			l.demandCount(t, "election.failures conflict", 0)
			if l.gauge("election.term") == 0 {
				t.Errorf("%s knows of no term", id)
			}
		}
		if lost != 2 {
			t.Errorf("three candidates claimed at once, and %d lost a race", lost)
		}
		for _, e := range all {
			stop(t, e)
		}
	})
}

func TestVacancyKeepsTheTerm(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		holder, _ := begin(t, f, "holder")
		term := float64(holder.Term().Number)
		e, l := begin(t, f, "a", func(c *leader.ElectionConfig) {
			c.HealthChecker, c.MaxConsecutiveFailures = sick{}, 1
		})
		time.Sleep(2 * heartbeat)
		stop(t, holder)
		l.demandGauge(t, "election.term", term)
		l.demandGauge(t, "election.barred unhealthy", 1)
		stop(t, e)
	})
}

type sick struct{}

func (sick) Check(context.Context) bool { return false }

func TestTroublesAreFailuresByTheirKind(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *faultstore.Faults) {
		e, l := made(t, f, "a", func(c *leader.ElectionConfig) { c.DemoteTimeout = time.Second })
		terms := 0
		e.OnPromote(func(context.Context, string) {
			terms++
			if terms > 1 {
				panic("as planned")
			}
		})
		start(t, e)
		f.Put("g", []byte("no record"))
		f.Put("_ctl.g", []byte("nor a request"))
		time.Sleep(time.Minute)
		if err := e.ValidateToken(t.Context()); err == nil {
			t.Error("a token was found valid without a term")
		}
		synctest.Wait()
		l.demandCount(t, "election.token_validation.failures", 1)
		if l.count("election.terms.ended panicked") == 0 || l.count("election.failures panic") == 0 ||
			l.count("election.failures malformed") != 1 {
			t.Errorf("counted: %v", l.all())
		}
		l.last(t, "election.callback.duration promote")
		stop(t, e)
	})
}

func TestNamesAndLabelsMatchTheSpecification(t *testing.T) {
	want := map[string][]string{
		"election_is_leader":                       nil,
		"election_transitions_total":               {"from_state", "to_state"},
		"election_failures_total":                  {"error_type"},
		"election_heartbeat_duration_seconds":      {"status"},
		"election_leader_duration_seconds":         nil,
		"election_acquire_attempts_total":          {"status"},
		"election_token_validation_failures_total": nil,
		"election_connection_status":               nil,
	}
	if got := telemetry.Labels(); !slices.Equal(got, []string{"role", "instance_id", "bucket"}) {
		t.Errorf("labels of all: %q", got)
	}
	seen := map[string]bool{}
	for _, m := range telemetry.All() {
		d := m.Definition()
		name := d.Prometheus()
		if seen[name] || d.Help == "" || (d.Kind == telemetry.Histogram) != (len(d.Buckets) > 0) || !slices.IsSorted(d.Buckets) {
			t.Errorf("%s: defined twice, without help, or with the wrong buckets", name)
		}
		seen[name] = true
		if labels, ok := want[name]; ok && !slices.Equal(labels, d.Labels) {
			t.Errorf("%s has the labels %q, want %q", name, d.Labels, labels)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
}
