package leaderprom_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderprom"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func config(group, id string, hooks leader.Hooks) leader.ElectionConfig {
	return leader.ElectionConfig{
		Bucket: "leaders", Group: group, InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		DeleteOnStop: true, Hooks: hooks,
	}
}

// begin starts an election and waits until nothing more happens.
func begin(t *testing.T, st *memstore.Store, cfg leader.ElectionConfig, adapt ...func(leader.Election)) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range adapt {
		a(e)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return e
}

func stop(t *testing.T, e leader.Election) {
	t.Helper()
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

func metrics(t *testing.T, reg prometheus.Registerer) *leaderprom.Metrics {
	t.Helper()
	m, err := leaderprom.New(reg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// gather scrapes reg. The keys of the result look like
// election_is_leader{bucket=leaders,…}.
func gather(t *testing.T, reg prometheus.Gatherer) map[string]*dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*dto.Metric)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[fmt.Sprintf("%s{%s}", f.GetName(), strings.Join(labels, ","))] = m
		}
	}
	return all
}

func demandGauge(t *testing.T, reg prometheus.Gatherer, name string, want float64) {
	t.Helper()
	all := gather(t, reg)
	if m := all[name]; m == nil || m.GetGauge().GetValue() != want {
		t.Errorf("%s: %v, want %v; there are: %q", name, m, want, slices.Sorted(maps.Keys(all)))
	}
}

// lead has an election through everything that leaves a trace, and leaves it
// running.
func lead(t *testing.T, st *memstore.Store, hooks leader.Hooks) leader.Election {
	t.Helper()
	e := begin(t, st, config("reports", "worker-1", hooks), func(e leader.Election) {
		e.OnPromote(func(ctx context.Context, _ string) { <-ctx.Done() })
		e.OnDemote(func() {})
		e.OnCampaign(func(leader.Reason) {})
	})
	time.Sleep(5 * time.Second)
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.ValidateToken(t.Context()); err == nil {
		t.Error("a token was found valid after the resignation")
	}
	time.Sleep(10 * time.Second)
	if !e.IsLeader() {
		t.Fatal("nobody else is there, and yet it does not lead again")
	}
	return e
}

func TestMetricsMatchTheSpecificationAndPassPromlint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		e := lead(t, memstore.New(), metrics(t, reg).Hooks())
		const id = "bucket=leaders,instance_id=worker-1,role=reports"
		all := gather(t, reg)
		for _, want := range []string{
			"election_is_leader{" + id + "}",
			"election_transitions_total{bucket=leaders,from_state=CANDIDATE,instance_id=worker-1,role=reports,to_state=LEADER}",
			"election_heartbeat_duration_seconds{" + id + ",status=ok}",
			"election_leader_duration_seconds{" + id + "}",
			"election_acquire_attempts_total{" + id + ",status=ok}",
			"election_token_validation_failures_total{" + id + "}",
			"election_connection_status{" + id + "}",
			"election_trust_remaining_seconds{" + id + "}",
			"election_term{" + id + "}",
			"election_contention_total{" + id + "}",
			"election_callback_duration_seconds{bucket=leaders,callback=promote,instance_id=worker-1,role=reports}",
			"election_renewal_margin_ratio{" + id + "}",
			"election_terms_ended_total{bucket=leaders,instance_id=worker-1,reason=resigned,role=reports}",
		} {
			if all[want] == nil {
				t.Errorf("there is no %s, but: %q", want, slices.Sorted(maps.Keys(all)))
			}
		}
		// No exceptions: the names of the specification are clean.
		problems, err := testutil.GatherAndLint(reg)
		if err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
		stop(t, e)
	})
}

// Alerts look for the first increment, and no monitoring system sees the one
// with which a counter appears.
func TestCountersThatAlertsLookForAreShownFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		e := begin(t, memstore.New(), config("reports", "worker-1", metrics(t, reg).Hooks()))
		const id = "instance_id=worker-1,role=reports"
		all := gather(t, reg)
		for _, name := range []string{
			"election_failures_total{bucket=leaders,error_type=regressed," + id + "}",
			"election_failures_total{bucket=leaders,error_type=overrun," + id + "}",
			"election_token_validation_failures_total{bucket=leaders," + id + "}",
		} {
			if c := all[name].GetCounter(); c == nil || c.GetValue() != 0 {
				t.Errorf("%s: %v", name, c)
			}
		}
		stop(t, e)
	})
}

// specified is the specification's text about the metrics, word for word.
const specified = `
- ~election_is_leader~ (gauge) — 1 if current instance is leader, 0 otherwise. Labels: ~role~, ~instance_id~, ~bucket~
- ~election_transitions_total~ (counter) — Total number of state transitions. Labels: ~role~, ~instance_id~, ~bucket~, ~from_state~, ~to_state~
- ~election_failures_total~ (counter) — Total number of election failures. Labels: ~role~, ~instance_id~, ~bucket~, ~error_type~
- ~election_heartbeat_duration_seconds~ (histogram) — Time taken for heartbeat operations. Labels: ~role~, ~instance_id~, ~bucket~, ~status~
- ~election_leader_duration_seconds~ (histogram) — How long instances hold leadership. Labels: ~role~, ~instance_id~, ~bucket~
- ~election_acquire_attempts_total~ (counter) — Total election acquisition attempts. Labels: ~role~, ~instance_id~, ~bucket~, ~status~
- ~election_token_validation_failures_total~ (counter) — Token validation failures (indicates stale leaders). Labels: ~role~, ~instance_id~, ~bucket~
- ~election_connection_status~ (gauge) — NATS connection status (1=connected, 0=disconnected). Labels: ~role~, ~instance_id~, ~bucket~
`

// A distant store is one whose writes take trip, and of which one is refused.
type distant struct {
	*memstore.Store
	trip   time.Duration
	refuse uint64 // the number of the write, from 1
	writes atomic.Uint64
}

func (d *distant) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	time.Sleep(d.trip / 2)
	defer time.Sleep(d.trip / 2)
	if d.writes.Add(1) == d.refuse {
		return 0, fmt.Errorf("%w: the test wants it so", store.ErrTransient)
	}
	return d.Store.CompareAndSwap(ctx, w)
}

// troubled makes an election lead for a minute, with writes that each take
// trip. A single renewal fails, and the terms end by resignation.
func troubled(t *testing.T, hooks leader.Hooks, trip time.Duration) {
	t.Helper()
	st := &distant{Store: memstore.New(), trip: trip, refuse: 6}
	e, err := leader.NewElectionWithStore(st, config("reports", "worker-1", hooks))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	time.Sleep(30*time.Second + trip/2)
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Second)
}

func families(t *testing.T, reg prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	gathered, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*dto.MetricFamily)
	for _, f := range gathered {
		all[f.GetName()] = f
	}
	return all
}

func TestTheEightMetricsHaveTheNamesTypesAndLabelsOfTheSpecificationsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		troubled(t, metrics(t, reg).Hooks(), 0)
		all := families(t, reg)
		lines := regexp.MustCompile(`(?m)^- ~(\w+)~ \((\w+)\) — .* Labels: (.*)$`).FindAllStringSubmatch(specified, -1)
		if len(lines) != 8 {
			t.Fatalf("%d metrics are specified, want 8", len(lines))
		}
		for _, line := range lines {
			name, kind := line[1], strings.ToUpper(line[2])
			want := strings.Split(strings.ReplaceAll(line[3], "~", ""), ", ")
			slices.Sort(want)
			f := all[name]
			if f == nil || f.GetType().String() != kind || len(f.GetMetric()) == 0 {
				t.Errorf("%s: %v, want a %s", name, f, kind)
				continue
			}
			for _, m := range f.GetMetric() {
				var got []string
				for _, l := range m.GetLabel() {
					got = append(got, l.GetName())
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s has the labels %q, want %q", name, got, want)
				}
			}
		}
	})
}

func TestHistogramsShowHowLongItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 40 * time.Millisecond
		reg := prometheus.NewPedanticRegistry()
		troubled(t, metrics(t, reg).Hooks(), trip)
		const id = "bucket=leaders,instance_id=worker-1,role=reports"
		all := gather(t, reg)
		h := all["election_heartbeat_duration_seconds{"+id+",status=ok}"].GetHistogram()
		if n := h.GetSampleCount(); n < 40 || math.Abs(h.GetSampleSum()-float64(n)*trip.Seconds()) > 1e-6 {
			t.Errorf("%d renewals of %v each took %v s", n, trip, h.GetSampleSum())
		}
		// From the claim's answer to the resignation.
		h = all["election_leader_duration_seconds{"+id+"}"].GetHistogram()
		if n, took := h.GetSampleCount(), h.GetSampleSum(); n != 1 || took < 29 || took > 31 {
			t.Errorf("%d terms of 30 s took %v s", n, took)
		}
	})
}

func TestNoSeriesHoldsAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		e := lead(t, memstore.New(), metrics(t, reg).Hooks())
		for name := range gather(t, reg) {
			if strings.Contains(name, e.Token()) {
				t.Errorf("%s holds the token", name)
			}
		}
		stop(t, e)
	})
}

func TestOneRegistryShowsManyElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		hooks, st := metrics(t, reg).Hooks(), memstore.New()
		a := begin(t, st, config("reports", "worker-1", hooks))
		b := begin(t, st, config("reports", "worker-2", hooks))
		c := begin(t, st, config("billing", "worker-2", hooks))
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-1,role=reports}", 1)
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-2,role=reports}", 0)
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-2,role=billing}", 1)
		term := float64(a.Term().Number)
		demandGauge(t, reg, "election_term{bucket=leaders,instance_id=worker-2,role=reports}", term)
		stop(t, a)
		time.Sleep(time.Second)
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-2,role=reports}", 1)
		stop(t, b)
		stop(t, c)
	})
}

func TestAStoppedElectionLeavesNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		e := lead(t, memstore.New(), metrics(t, reg).Hooks())
		if len(gather(t, reg)) == 0 {
			t.Error("nothing is shown of an election that runs")
		}
		stop(t, e)
		if all := gather(t, reg); len(all) > 0 {
			t.Errorf("left: %q", slices.Sorted(maps.Keys(all)))
		}
	})
}

// An observer beside the metrics that panics must not keep them from hearing of
// the stop.
func TestAStoppedElectionLeavesNoSeriesWhateverOtherHooksDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		broken := leader.Hooks{PerElection: func(leader.Election, leader.ElectionConfig) leader.Hooks { panic("boom") }}
		e := begin(t, memstore.New(), config("reports", "a", leader.JoinHooks(metrics(t, reg).Hooks(), broken)))
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=a,role=reports}", 1)
		stop(t, e)
		if left := gather(t, reg); len(left) != 0 {
			t.Errorf("%d series outlive the election", len(left))
		}
	})
}

func TestARoleThatIsRemovedLeavesNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m, err := leader.NewRoleManagerWithStore(memstore.New(), leader.RoleManagerConfig{
			Election: config("", "worker-1", metrics(t, reg).Hooks()),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, role := range []string{"reports", "billing"} {
			if err := m.Add(t.Context(), leader.Role{Name: role}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-1,role=reports}", 1)
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-1,role=billing}", 1)
		if err := m.Remove(t.Context(), "billing"); err != nil {
			t.Fatal(err)
		}
		for name := range gather(t, reg) {
			if strings.Contains(name, "role=billing") {
				t.Errorf("left: %s", name)
			}
		}
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-1,role=reports}", 1)
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		if all := gather(t, reg); len(all) > 0 {
			t.Errorf("left: %q", slices.Sorted(maps.Keys(all)))
		}
	})
}

// A program may start the successor of an election before the former has
// stopped.
func TestOfTwoElectionsOfOneNameTheLaterIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		hooks := metrics(t, reg).Hooks()
		first := begin(t, memstore.New(), config("reports", "worker-1", hooks))
		second := begin(t, memstore.New(), config("reports", "worker-1", hooks))
		stop(t, first)
		demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=worker-1,role=reports}", 1)
		stop(t, second)
		if all := gather(t, reg); len(all) > 0 {
			t.Errorf("left: %q", slices.Sorted(maps.Keys(all)))
		}
	})
}

func TestASecondRegistrationIsAnError(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics(t, reg)
	_, err := leaderprom.New(reg)
	if already := (prometheus.AlreadyRegisteredError{}); !errors.As(err, &already) {
		t.Errorf("New: %v", err)
	}
	if _, err := leaderprom.New(nil); err == nil {
		t.Error("a registry that is nil was taken")
	}
}

func TestLabelsOfTheProgramsOwnKeepTwoApart(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, app := range []string{"x", "y"} {
		hooks := metrics(t, prometheus.WrapRegistererWith(prometheus.Labels{"app": app}, reg)).Hooks()
		cfg := config("reports", "worker-1", hooks)
		e, err := leader.NewElectionWithStore(memstore.New(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		hooks.PerElection(e, cfg)
		demandGauge(t, reg, "election_is_leader{app="+app+",bucket=leaders,instance_id=worker-1,role=reports}", 0)
	}
}

func TestNoNameCostsTheScrape(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	hooks := metrics(t, reg).Hooks()
	e, err := leader.NewElectionWithStore(memstore.New(), config("reports", "worker-1", leader.Hooks{}))
	if err != nil {
		t.Fatal(err)
	}
	// No election has such a name, but a caller of the hooks may give one.
	own := hooks.PerElection(e, config("reports", "\xff", leader.Hooks{}))
	own.Note(leader.Note{Kind: leader.NoteResolved, Call: "\xff"})
	demandGauge(t, reg, "election_is_leader{bucket=leaders,instance_id=\uFFFD,role=reports}", 0)
}

// shown shows n elections on a registry.
func shown(tb testing.TB, n int) *prometheus.Registry {
	tb.Helper()
	reg := prometheus.NewRegistry()
	m, err := leaderprom.New(reg)
	if err != nil {
		tb.Fatal(err)
	}
	st, hooks := memstore.New(), m.Hooks()
	for i := range n {
		cfg := config(fmt.Sprintf("role-%d", i), "worker-1", leader.Hooks{})
		e, err := leader.NewElectionWithStore(st, cfg)
		if err != nil {
			tb.Fatal(err)
		}
		hooks.PerElection(e, cfg)
	}
	return reg
}

func TestTenThousandRolesFitIntoOneScrape(t *testing.T) {
	const roles = 10_000
	n, err := testutil.GatherAndCount(shown(t, roles), "election_is_leader")
	if err != nil || n != roles {
		t.Errorf("%d roles are shown, want %d: %v", n, roles, err)
	}
}

func BenchmarkScrapeOfThousandRoles(b *testing.B) {
	reg := shown(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkShowAnElection(b *testing.B) {
	m, err := leaderprom.New(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	hooks := m.Hooks()
	e, err := leader.NewElectionWithStore(memstore.New(), config("reports", "worker-1", leader.Hooks{}))
	if err != nil {
		b.Fatal(err)
	}
	cfg := config("reports", "worker-1", leader.Hooks{})
	b.ReportAllocs()
	for b.Loop() {
		hooks.PerElection(e, cfg)
	}
}
