package metrics_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrape is the interval of the samples and of the evaluations.
const scrape = 30 * time.Second

// A sample is one value of a series.
type sample struct {
	at    int64
	value float64
}

// T, ST, F, H, FH, Type and Copy implement chunks.Sample.
func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// A scene is what Prometheus has scraped.
type scene struct {
	storage.LabelQuerier
	series []storage.Series
	end    time.Duration
}

// newScene takes series in the notation of promtool: election_term{role="x"} 1
// 1 2x3 _ 4.
func newScene(t *testing.T, descriptions []string) *scene {
	t.Helper()
	s := &scene{LabelQuerier: storage.NoopQuerier()}
	for _, text := range descriptions {
		name, values, err := newParser().ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * scrape.Milliseconds(), v.Value})
			}
		}
		s.series = append(s.series, storage.NewListSeries(name, samples))
		s.end = max(s.end, time.Duration(len(values)-1)*scrape)
	}
	return s
}

// Querier implements storage.Queryable.
func (s *scene) Querier(int64, int64) (storage.Querier, error) { return s, nil }

// Select implements storage.Querier.
func (s *scene) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return &selection{series: slices.DeleteFunc(slices.Clone(s.series), func(series storage.Series) bool {
		return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Labels().Get(m.Name)) })
	})}
}

// A selection is a storage.SeriesSet.
type selection struct {
	series []storage.Series
	next   int
}

func (s *selection) Next() bool                      { s.next++; return s.next <= len(s.series) }
func (s *selection) At() storage.Series              { return s.series[s.next-1] }
func (*selection) Err() error                        { return nil }
func (*selection) Warnings() annotations.Annotations { return nil }

func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: newParser()})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// fires returns the alerts that fire at any time of the scene, evaluated as
// Prometheus does.
func (s *scene) fires(t *testing.T, all []rulefmt.Rule) []string {
	t.Helper()
	engine := newEngine(t)
	fired := make(map[string]bool)
	step := max(scrape, s.end/500) // a scene of a day is looked at less often
	for _, rule := range all {
		// since when an alert has been pending, by its labels
		since := make(map[string]time.Duration)
		for now := time.Duration(0); now <= s.end; now += step {
			active := s.evaluate(t, engine, rule.Expr, now)
			maps.DeleteFunc(since, func(key string, _ time.Duration) bool { return !active[key] })
			for key := range active {
				if _, ok := since[key]; !ok {
					since[key] = now
				}
				if now-since[key] >= time.Duration(rule.For) {
					fired[rule.Alert] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(fired))
}

func (s *scene) evaluate(t *testing.T, engine *promql.Engine, expr string, now time.Duration) map[string]bool {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), s, nil, expr, time.UnixMilli(now.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	active := make(map[string]bool)
	for _, sample := range result {
		active[sample.Metric.String()] = true
	}
	return active
}

// Two instances of one role. Series of other metrics are given where a case
// needs them.
const (
	isLeaderA = `election_is_leader{role="reports",instance_id="a",bucket="leaders"} `
	isLeaderB = `election_is_leader{role="reports",instance_id="b",bucket="leaders"} `
	termA     = `election_term{role="reports",instance_id="a",bucket="leaders"} `
	termB     = `election_term{role="reports",instance_id="b",bucket="leaders"} `
	barredA   = `election_barred{role="reports",instance_id="a",bucket="leaders",reason="paused"} `
	barredB   = `election_barred{role="reports",instance_id="b",bucket="leaders",reason="paused"} `
	marginA   = `election_renewal_margin_ratio_bucket{role="reports",instance_id="a",bucket="leaders",le="0.25"} `
	renewedA  = `election_heartbeat_duration_seconds_count{role="reports",instance_id="a",bucket="leaders",status="ok"} `
	unknownA  = `election_heartbeat_duration_seconds_count{role="reports",instance_id="a",bucket="leaders",status="unknown"} `
	connA     = `election_connection_status{role="reports",instance_id="a",bucket="leaders"} `
	lostA     = `election_failures_total{role="reports",instance_id="a",bucket="leaders",error_type="regressed"} `
	overranA  = `election_failures_total{role="reports",instance_id="a",bucket="leaders",error_type="overrun"} `
	otherA    = `election_failures_total{role="reports",instance_id="a",bucket="leaders",error_type="unknown"} `
	staleA    = `election_token_validation_failures_total{role="reports",instance_id="a",bucket="leaders"} `
)

func TestAlertsFireWhenTheyShouldAndNotOtherwise(t *testing.T) {
	t.Parallel()
	tests := []happening{
		{"nothing happens", []string{
			isLeaderA + "1x60", isLeaderB + "0x60", termA + "5x60", termB + "5x60", marginA + "0x60",
			renewedA + "0+30x60", connA + "1x60", staleA + "0x60",
		}, nil},
		{"a hand-over, seen as two leaders for one scrape", []string{
			isLeaderA + "1x20 0x40", isLeaderB + "0x19 1x41", termA + "5x20 6x40", termB + "5x19 6x41",
		}, nil},
		{"a hand-over, seen as none for one scrape", []string{
			isLeaderA + "1x20 0x40", isLeaderB + "0x21 1x39", termA + "5x20 6x40", termB + "5x20 6x40",
		}, nil},
		{"a failover of a minute and a half", []string{
			isLeaderA + "1x20 0x40", isLeaderB + "0x24 1x36", termA + "5x24 6x36", termB + "5x24 6x36",
		}, nil},
		{"a rolling upgrade of five instances within 15 minutes", []string{
			isLeaderA + "1 0x60", isLeaderB + "0 1x60", termB + "1x4 2x4 3x4 4x4 5x4 6x40",
		}, nil},
		{"two leaders", []string{isLeaderA + "1x60", isLeaderB + "0x20 1x10 0x30"}, []string{"ElectionTwoLeaders"}},
		{"a leader of another role", []string{
			isLeaderA + "1x60", `election_is_leader{role="billing",instance_id="a",bucket="leaders"} 1x60`,
		}, nil},
		{"nobody leads", []string{isLeaderA + "1x20 0x20", isLeaderB + "0x40"}, []string{"ElectionNoLeader"}},
		{"nobody leads, since the group is paused", []string{
			isLeaderA + "1x20 0x20", isLeaderB + "0x40", barredA + "_x20 1x20", barredB + "_x20 1x20",
		}, nil},
		{"the leadership flaps", []string{
			isLeaderA + "1x60", termA + "1x2 2x2 3x2 4x2 5x2 6x2 7x2 8x2",
		}, []string{"ElectionFlapping"}},
		{"all candidates vanish", []string{isLeaderA + "1x40 stale _x60", isLeaderB + "0x40 stale _x60"}, []string{"ElectionCandidatesGone"}},
		{"one candidate vanishes", []string{isLeaderA + "1x100", isLeaderB + "0x40 stale _x60"}, nil},
		{"a renewal comes late", []string{isLeaderA + "1x60", marginA + "0x20 1x40"}, []string{"ElectionRenewalsNearTrustLimit"}},
		{"a fifth of the renewals fails", []string{
			isLeaderA + "1x60", renewedA + "0+24x60", unknownA + "0+6x60",
		}, []string{"ElectionRenewalsFail"}},
		{"one renewal fails", []string{isLeaderA + "1x60", renewedA + "0+30x60", unknownA + "0x20 1x40"}, nil},
		{"a connection is lost", []string{isLeaderB + "1x60", connA + "1x20 0x10 1x30"}, []string{"ElectionDisconnected"}},
		{"a connection is lost and found", []string{isLeaderB + "1x60", connA + "1x20 0x2 1x38"}, nil},
		{"the store forgets for the first time", []string{isLeaderA + "1x60", lostA + "0x20 1x40"}, []string{"ElectionStoreLostWrites"}},
		{"work outlives its term", []string{isLeaderA + "1x60", overranA + "0x20 1x40"}, []string{"ElectionWorkDoesNotStop"}},
		{"an instance starts", []string{isLeaderA + "_x20 1x40", lostA + "_x20 0x40", overranA + "_x20 0x40"}, nil},
		{"the store forgot days ago, and so did work, and a new Prometheus looks", []string{
			isLeaderA + "1x20", lostA + "1x20", overranA + "1x20",
		}, nil},
		{"they did long before a gap", []string{
			isLeaderA + "1x200 _x4 1x137", lostA + "1x200 _x30 1x111", overranA + "1x200 _x30 1x111",
		}, nil},
		{"another failure", []string{isLeaderA + "1x60", otherA + "_x20 1x40"}, nil},
		{"a stale leader acts", []string{isLeaderA + "1x60", staleA + "0x20 1x40"}, []string{"ElectionStaleToken"}},
	}
	judge(t, rules(t), tests)
}

// A happening is a scene, and the alerts that are to fire in it.
type happening struct {
	name   string
	series []string
	want   []string
}

// judge demands that rules fire in these scenes and in no other, and each of
// them in one at least.
func judge(t *testing.T, all []rulefmt.Rule, scenes []happening) {
	t.Helper()
	seen := make(map[string]bool)
	for _, tt := range scenes {
		t.Run(tt.name, func(t *testing.T) {
			if got := newScene(t, tt.series).fires(t, all); !slices.Equal(got, tt.want) {
				t.Errorf("fired: %q, want %q", got, tt.want)
			}
		})
		for _, name := range tt.want {
			seen[name] = true
		}
	}
	for _, rule := range all {
		if !seen[rule.Alert] {
			t.Errorf("no case makes %s fire", rule.Alert)
		}
	}
}

// The names under which two exporters see one group.
const (
	knownX     = `election_group_leader_known{role="reports",bucket="leaders",instance="x"} `
	knownY     = `election_group_leader_known{role="reports",bucket="leaders",instance="y"} `
	groupTermX = `election_group_term{role="reports",bucket="leaders",instance="x"} `
	groupTermY = `election_group_term{role="reports",bucket="leaders",instance="y"} `
	pausedX    = `election_group_paused{role="reports",bucket="leaders",instance="x"} `
	malformedX = `election_group_malformed_records_total{role="reports",bucket="leaders",instance="x"} `
	seesX      = `election_observer_connected{bucket="leaders",instance="x"} `
	seesY      = `election_observer_connected{bucket="leaders",instance="y"} `
	completeX  = `election_observer_complete{bucket="leaders",instance="x"} `
	upAX       = `election_group_member_up{role="reports",bucket="quorum://",member="a",instance="x"} `
	upBX       = `election_group_member_up{role="reports",bucket="quorum://",member="b",instance="x"} `
	upBY       = `election_group_member_up{role="reports",bucket="quorum://",member="b",instance="y"} `
	memoryAX   = `election_group_member_memory{role="reports",bucket="quorum://",member="a",instance="x"} `
	memoryBX   = `election_group_member_memory{role="reports",bucket="quorum://",member="b",instance="x"} `
	ignoredX   = `election_observer_ignored_groups{bucket="leaders",instance="x"} `
)

func TestAlertsOfTheExporterFireWhenTheyShouldAndNotOtherwise(t *testing.T) {
	t.Parallel()
	judge(t, rulesOf(t, exporterFile), []happening{
		{"nothing happens", []string{
			knownX + "1x60", knownY + "1x60", groupTermX + "5x60", groupTermY + "5x60", pausedX + "0x60", malformedX + "3x60",
			seesX + "1x60", seesY + "1x60", completeX + "1x60", ignoredX + "0x60",
		}, nil},
		{"a failover of a minute and a half", []string{knownX + "1x20 0x3 1x30", pausedX + "0x60", seesX + "1x60"}, nil},
		{"nobody leads", []string{knownX + "1x20 0x40", pausedX + "0x60", seesX + "1x60"}, []string{"ElectionGroupVacant"}},
		{"nobody leads, as two exporters see it", []string{
			knownX + "1x20 0x40", knownY + "1x20 0x40", pausedX + "0x60", seesX + "1x60", seesY + "1x60",
		}, []string{"ElectionGroupVacant"}},
		{"one exporter has just started", []string{knownX + "1x60", knownY + "_x20 0x9 1x31", seesX + "1x60", seesY + "_x20 1x40"}, nil},
		{"nobody has ever led", []string{knownX + "0x60", pausedX + "0x60", seesX + "1x60"}, nil},
		{"an exporter is restarted and finds the record of a leader that died long ago", []string{
			knownX + "0x1600 _x2 _ 0x40", pausedX + "0x1600 _x2 0x42", seesX + "1x1600 _x2 1x42",
		}, nil},
		{"an exporter is restarted, and the leader dies meanwhile", []string{
			knownX + "1x60 _x2 _ 0x40", pausedX + "0x60 _x2 0x42", seesX + "1x60 _x2 1x42",
		}, []string{"ElectionGroupVacant"}},
		{"nobody leads, since the group is paused", []string{knownX + "1x20 0x40", pausedX + "0x20 1x40", seesX + "1x60"}, nil},
		{"a pause is forgotten", []string{knownX + "0x2900", pausedX + "1x2900", seesX + "1x2900"}, []string{"ElectionGroupPausedForLong"}},
		{"a group is paused before its first leader, which comes later", []string{
			knownX + "0x60 1x60", pausedX + "1x60 0x60", groupTermX + "0x60 7x60", seesX + "1x120",
		}, nil},
		{"a group is paused, loses its record, and is resumed", []string{
			knownX + "1x20 0x40 _x60", pausedX + "0x20 1x40 _x60", groupTermX + "7x40 0x20 _x60", seesX + "1x120",
		}, nil},
		{"the leadership flaps", []string{
			knownX + "1x60", groupTermX + "1x2 2x2 3x2 4x2 5x2 6x2 7x2 8x2", groupTermY + "1x2 2x2 3x2 4x2 5x2 6x2 7x2 8x2",
		}, []string{"ElectionGroupFlapping"}},
		{"somebody writes over a record", []string{knownX + "1x60", malformedX + "0x20 1x40"}, []string{"ElectionGroupUnreadable"}},
		{"somebody goes on writing over a record", []string{knownX + "1x20 0x40", malformedX + "0x20 1+1x40", pausedX + "1x60"}, []string{"ElectionGroupUnreadable"}},
		{"somebody writes to a new key", []string{
			knownX + "_x20 0x200", malformedX + "_x60 1x160", seesX + "1x220", completeX + "1x220",
		}, []string{"ElectionGroupUnreadable"}},
		{"an exporter finds what somebody has written", []string{
			knownX + "_ 0x220", malformedX + "_ 1x220", seesX + "1x220", completeX + "0 1x220",
		}, nil},
		{"a second exporter finds what somebody has written", []string{
			knownX + "0x220", malformedX + "1x220", seesX + "1x220", completeX + "1x220",
			`election_group_malformed_records_total{role="reports",bucket="leaders",instance="y"} _x60 1x160`,
		}, nil},
		{"somebody wrote long ago, and the exporter has been away", []string{
			knownX + "0x100 _x40 0x100", malformedX + "1x100 _x40 1x100", seesX + "1x100 _x40 1x100", completeX + "1x100 _x40 1x100",
		}, []string{"ElectionObserverGone"}},
		{"a member of a quorum is away", []string{
			upAX + "1x60", upBX + "1x20 0x40", memoryAX + "1x60", memoryBX + "1x20 _x40",
		}, []string{"ElectionGroupMemberLost"}},
		{"a member of a quorum is restarted", []string{upAX + "1x60", upBX + "1x20 0x8 1x30", memoryAX + "1x60"}, nil},
		{"a member of a quorum is cut off from one exporter of two", []string{upBX + "1x20 0x40", upBY + "1x60"}, nil},
		{"a member of a quorum was wiped, and nobody leads to heal it", []string{
			upAX + "1x60", upBX + "1x60", memoryAX + "1x60", memoryBX + "1x20 0x40",
		}, []string{"ElectionGroupMemberLost"}},
		{"no member of a quorum remembers a group that is paused", []string{
			upAX + "1x60", upBX + "1x60", memoryAX + "0x60", memoryBX + "0x60", pausedX + "1x60",
		}, nil},
		{"the exporter loses NATS while nobody leads", []string{
			knownX + "1x20 0x60", seesX + "1x20 0x60",
		}, []string{"ElectionObserverBlind"}},
		{"the exporter may not read the bucket", []string{seesX + "1x60", completeX + "0x60"}, []string{"ElectionObserverBlind"}},
		{"the exporter vanishes", []string{seesX + "1x40 stale _x60"}, []string{"ElectionObserverGone"}},
		{"one exporter of two vanishes", []string{seesX + "1x100", seesY + "1x40 stale _x60"}, nil},
		{"there are too many groups", []string{seesX + "1x60", ignoredX + "0x20 7x40"}, []string{"ElectionObserverOverfull"}},
	})
}

// A failure that happened long ago does not alert for ever, and a later failure
// alerts again.
func TestAlertsOfFailuresEndAndComeAgain(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]int{"1x200": 0, "1x200 2x20": 2} {
		s := newScene(t, []string{lostA + "0x10 " + end, overranA + "0x10 " + end})
		engine := newEngine(t)
		active := 0
		for _, rule := range rules(t) {
			active += len(s.evaluate(t, engine, rule.Expr, s.end))
		}
		if active != want {
			t.Errorf("%s: %d alerts are active, want %d", end, active, want)
		}
	}
}

// Nor is a record that nobody can read, once nobody writes more of them.
func TestTheAlertOfUnreadableRecordsEndsWithTheWrites(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"0x60 ", "_x60 "} { // known before, and new
		for _, tt := range []struct {
			written string
			after   int // scrapes since the first
			want    int
		}{
			{"1x100", 2, 1}, {"1x100", 28, 1}, {"1x100", 32, 0},
			{"1+1x100", 32, 1}, {"1+1x100", 95, 1}, {"1x50 2x50", 53, 1}, {"1x50 2x50", 85, 0},
		} {
			s := newScene(t, []string{malformedX + group + tt.written, completeX + "1x160"})
			engine := newEngine(t)
			active := 0
			for _, rule := range rulesOf(t, exporterFile) {
				active += len(s.evaluate(t, engine, rule.Expr, time.Duration(60+tt.after)*scrape))
			}
			if active != tt.want {
				t.Errorf("%s%s, %d scrapes later: %d alerts are active, want %d", group, tt.written, tt.after, active, tt.want)
			}
		}
	}
}
