package leaderotel_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderotel"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/store"
)

// A lab records the telemetry of elections.
type lab struct {
	*leaderotel.Telemetry
	tracer trace.Tracer
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans))
	l.tracer = traces.Tracer("test")
	var err error
	l.Telemetry, err = leaderotel.New(leaderotel.Options{
		TracerProvider: traces, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// begin starts an election and waits until nothing more happens.
func begin(ctx context.Context, t *testing.T, st store.Store, hooks leader.Hooks, adapt ...func(leader.Election)) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Bucket: "leaders", Group: "reports", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		DeleteOnStop: true, AcquireGrace: leader.GraceOff, Hooks: hooks,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range adapt {
		a(e)
	}
	if err := e.Start(ctx); err != nil {
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

// ended returns the spans of a name that ended, in the order of their ends.
func (l *lab) ended(t *testing.T, name string, want int) []sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range l.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) != want {
		t.Fatalf("%d spans %s have ended, want %d", len(found), name, want)
	}
	return found
}

func demandAttr(t *testing.T, s sdktrace.ReadOnlySpan, key attribute.Key, want attribute.Value) {
	t.Helper()
	set := attribute.NewSet(s.Attributes()...)
	if got, _ := set.Value(key); got != want {
		t.Errorf("%s of %s is %q, want %q", key, s.Name(), got.String(), want.String())
	}
}

func linked(from, to sdktrace.ReadOnlySpan) bool {
	return slices.ContainsFunc(from.Links(), func(l sdktrace.Link) bool {
		return l.SpanContext.SpanID() == to.SpanContext().SpanID()
	})
}

func lasted(s sdktrace.ReadOnlySpan) time.Duration { return s.EndTime().Sub(s.StartTime()) }

func events(s sdktrace.ReadOnlySpan) (names []string) {
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

// inBubble runs a test in virtual time. At its end no span may be open.
func inBubble(t *testing.T, test func(t *testing.T, g *leadertest.Group, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		test(t, leadertest.NewGroup(t, leader.ElectionConfig{}), l)
		if started, ended := len(l.spans.Started()), len(l.spans.Ended()); started != ended {
			t.Errorf("%d spans have started and %d have ended", started, ended)
		}
	})
}

// A slowWatch is a connection whose watches show a term's end only after the
// answer to the write that ended it, and no renewal at all.
type slowWatch struct{ *leadertest.Store }

func (s slowWatch) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	return s.Store.Watch(ctx, keys, func(e store.Entry) {
		switch {
		case e.Tombstone:
			time.Sleep(time.Millisecond)
			deliver(e)
		case e.Revision == 0:
			deliver(e)
		}
	})
}

func TestACampaignATermAndAHandOverAreSpansThatAreLinked(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		// A watch that shows the release before its answer has come may end
		// the hand-over first.
		st := slowWatch{g.Store("a")}
		e := begin(t.Context(), t, st, l.Hooks(), func(e leader.Election) {
			e.OnPromote(func(context.Context, string) {})
			e.OnDemote(func() { time.Sleep(300 * time.Millisecond) })
		})
		term := e.Term()
		time.Sleep(10 * time.Second)
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		stop(t, e)

		terms, campaigns, handovers := l.ended(t, "election.term", 2), l.ended(t, "election.campaign", 2), l.ended(t, "election.handover", 2)
		first := terms[0]
		for _, s := range []sdktrace.ReadOnlySpan{first, campaigns[0], handovers[0]} {
			demandAttr(t, s, "election.group", attribute.StringValue("reports"))
			demandAttr(t, s, "election.instance_id", attribute.StringValue("a"))
			demandAttr(t, s, "election.bucket", attribute.StringValue("leaders"))
		}
		for _, s := range []sdktrace.ReadOnlySpan{first, handovers[0]} {
			demandAttr(t, s, "election.correlation", attribute.StringValue(term.Correlation()))
			demandAttr(t, s, "election.term", attribute.Int64Value(int64(term.Number)))
		}
		demandAttr(t, first, "election.reason", attribute.StringValue("resigned"))
		demandAttr(t, terms[1], "election.reason", attribute.StringValue("stopped"))
		demandAttr(t, campaigns[0], "election.outcome", attribute.StringValue("promoted"))
		if lasted(first) != 10*time.Second || lasted(handovers[0]) != 300*time.Millisecond {
			t.Errorf("the term lasted %v, want 10s, and the hand-over %v, want 300ms", lasted(first), lasted(handovers[0]))
		}
		if first.Status().Code == codes.Error {
			t.Error("a term that was resigned is an error")
		}
		if first.Parent().IsValid() || handovers[0].Parent().SpanID() != first.SpanContext().SpanID() {
			t.Error("a term is to be a separate trace, and its hand-over to belong to it")
		}
		if !linked(first, campaigns[0]) || !linked(campaigns[0], first) || !linked(campaigns[1], handovers[0]) {
			t.Error("a link is missing")
		}
		if !slices.Contains(events(campaigns[0]), "acquire") || !slices.Contains(events(handovers[0]), "release") {
			t.Errorf("events: %q, %q", events(campaigns[0]), events(handovers[0]))
		}
	})
}

func TestTheWorkOfATermIsAChildOfItsSpan(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		ctx, root := l.tracer.Start(t.Context(), "program")
		e := begin(ctx, t, g.Store("a"), l.Hooks(), func(e leader.Election) {
			e.OnPromote(func(ctx context.Context, _ string) {
				_, work := l.tracer.Start(ctx, "work")
				work.End()
			})
		})
		stop(t, e)
		root.End()
		term, work, program := l.ended(t, "election.term", 1)[0], l.ended(t, "work", 1)[0], l.ended(t, "program", 1)[0]
		if work.Parent().SpanID() != term.SpanContext().SpanID() {
			t.Error("the work is not a child of the term")
		}
		if term.SpanContext().TraceID() == program.SpanContext().TraceID() || !linked(term, program) {
			t.Error("the term is to be a separate trace with a link to who started the election")
		}
	})
}

func TestATermThatNobodyAskedToEndIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		e := begin(t.Context(), t, g.Store("a"), l.Hooks())
		time.Sleep(1500 * time.Millisecond)
		g.Store("a").CutOff()
		time.Sleep(time.Minute)
		term := l.ended(t, "election.term", 1)[0]
		if s := term.Status(); s.Code != codes.Error || s.Description != "trust-expired" {
			t.Errorf("status: %+v", s)
		}
		demandAttr(t, term, "election.reason", attribute.StringValue("trust-expired"))
		if !slices.Contains(events(term), "renew") {
			t.Errorf("the renewals that failed are missing from the events: %q", events(term))
		}
		g.Store("a").Reconnect()
		time.Sleep(time.Minute)
		stop(t, e)
	})
}

// A term's span begins before the program hears of the promotion, and after a
// crash between the two nothing else ends it.
func TestUnreportedTermEndsWithTheElection(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		hooks := leader.JoinHooks(l.Hooks(), leader.Hooks{PerElection: func(leader.Election, leader.ElectionConfig) leader.Hooks {
			return leader.Hooks{TermContext: func(context.Context, leader.Term) context.Context {
				runtime.Goexit()
				return nil
			}}
		}})
		e := begin(t.Context(), t, g.Store("a"), hooks)
		<-e.Done()
		if err := e.Stop(); !errors.Is(err, leader.ErrPanicked) {
			t.Errorf("the election ended with %v", err)
		}
		synctest.Wait()
		term, campaign := l.ended(t, "election.term", 1)[0], l.ended(t, "election.campaign", 1)[0]
		reason := string(leader.ReasonCrashed)
		if s := term.Status(); s.Code != codes.Error || s.Description != reason {
			t.Errorf("status: %+v", s)
		}
		demandAttr(t, term, "election.reason", attribute.StringValue(reason))
		if !term.EndTime().Equal(campaign.EndTime()) {
			t.Errorf("the term ended at %v, and the election at %v", term.EndTime(), campaign.EndTime())
		}
	})
}

func TestAResolvedWriteIsAnEventOfItsTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		// A watch that shows the renewal would resolve it before anybody has to
		// ask.
		st := slowWatch{g.Store("a")}
		e := begin(t.Context(), t, st, l.Hooks())
		st.SetWriteOutcome(store.Unknown)
		time.Sleep(1100 * time.Millisecond) // for one renewal
		st.SetWriteOutcome(store.OK)
		time.Sleep(10 * time.Second)
		stop(t, e)
		if got := events(l.ended(t, "election.term", 1)[0]); !slices.Contains(got, leader.NoteResolved) {
			t.Errorf("events: %q", got)
		}
	})
}

func TestFollowersCampaignEndsWhenAnotherWins(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		holder := begin(t.Context(), t, g.Store("holder"), leader.Hooks{})
		e := begin(t.Context(), t, g.Store("a"), l.Hooks())
		demandAttr(t, l.ended(t, "election.campaign", 1)[0], "election.outcome", attribute.StringValue("following"))
		l.ended(t, "election.term", 0)
		stop(t, e)
		stop(t, holder)
	})
}

func TestNoSpanHoldsAToken(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		var tokens []string
		e := begin(t.Context(), t, g.Store("a"), l.Hooks(), func(e leader.Election) {
			e.OnPromote(func(_ context.Context, token string) {
				tokens = append(tokens, token)
				if len(tokens) == 2 {
					panic("as planned")
				}
			})
		})
		g.Store("a").CutOff()
		time.Sleep(time.Minute)
		g.Store("a").Reconnect()
		time.Sleep(time.Minute)
		stop(t, e)
		if len(tokens) < 2 {
			t.Fatalf("%d terms", len(tokens))
		}
		for _, s := range l.spans.Ended() {
			attrs := s.Attributes()
			for _, e := range s.Events() {
				attrs = append(attrs, e.Attributes...)
			}
			for _, a := range attrs {
				if slices.ContainsFunc(tokens, func(token string) bool { return strings.Contains(a.Value.String(), token) }) {
					t.Errorf("%s of %s holds a token", a.Key, s.Name())
				}
			}
		}
	})
}

// An OTLP exporter refuses a whole batch of spans for one string that is no
// UTF-8, and a stack may be long.
func TestSpansContainShortUTF8Alone(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		promoted := 0
		foul := errors.New("bad \xff word" + strings.Repeat("é", 8<<10))
		e := begin(t.Context(), t, foulStore{g.Store("a"), foul}, l.Hooks(), func(e leader.Election) {
			e.OnPromote(func(context.Context, string) {
				promoted++
				if promoted == 1 {
					panic("bad \xff byte")
				}
			})
		})
		time.Sleep(time.Minute)
		g.Store("a").CutOff()
		time.Sleep(time.Minute)
		g.Store("a").Reconnect()
		time.Sleep(time.Minute)
		stop(t, e)
		seen := make(map[attribute.Key]bool)
		for _, s := range l.spans.Ended() {
			attrs := s.Attributes()
			for _, e := range s.Events() {
				attrs = append(attrs, e.Attributes...)
			}
			for _, a := range attrs {
				text := a.Value.String()
				seen[a.Key] = seen[a.Key] || strings.Contains(text, "bad  ")
				if !utf8.ValidString(text) || len(text) > 4<<10 {
					t.Errorf("%s of %s has %d bytes: %.100q", a.Key, s.Name(), len(text), text)
				}
			}
		}
		if !seen["election.text"] || !seen["election.error"] {
			t.Errorf("what was to be seen was not: %v", seen)
		}
	})
}

// A foulStore words the failures of another.
type foulStore struct {
	*leadertest.Store

	word error
}

func (s foulStore) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	revision, err := s.Store.CompareAndSwap(ctx, w)
	if err != nil {
		err = fmt.Errorf("%w: %w", s.word, err)
	}
	return revision, err
}

// collect reads the metrics, by their names.
func (l *lab) collect(t *testing.T) map[string]metricdata.Aggregation {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := l.reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]metricdata.Aggregation)
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m.Data
		}
	}
	return all
}

func TestMetricsAreMeasuredAndGaugesEndWithTheirElection(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		e := begin(t.Context(), t, g.Store("a"), l.Hooks())
		time.Sleep(5500 * time.Millisecond)
		all := l.collect(t)
		gauge, ok := all["election.is_leader"].(metricdata.Gauge[float64])
		if !ok || len(gauge.DataPoints) != 1 || gauge.DataPoints[0].Value != 1 {
			t.Fatalf("election.is_leader: %+v", all["election.is_leader"])
		}
		want := attribute.NewSet(
			attribute.String("role", "reports"), attribute.String("instance_id", "a"), attribute.String("bucket", "leaders"))
		if got := gauge.DataPoints[0].Attributes; !got.Equals(&want) {
			t.Errorf("attributes: %v", got)
		}
		renewals, ok := all["election.heartbeat.duration"].(metricdata.Histogram[float64])
		if !ok || len(renewals.DataPoints) != 1 || renewals.DataPoints[0].Count != 5 {
			t.Errorf("election.heartbeat.duration: %+v", all["election.heartbeat.duration"])
		}
		attempts, ok := all["election.acquire.attempts"].(metricdata.Sum[int64])
		if !ok || !attempts.IsMonotonic || attempts.DataPoints[0].Value != 1 {
			t.Errorf("election.acquire.attempts: %+v", all["election.acquire.attempts"])
		}
		stop(t, e)
		if left, ok := l.collect(t)["election.is_leader"]; ok {
			t.Errorf("the gauge outlives the election: %+v", left)
		}
	})
}

// Alerts look for the first increment, and no monitoring system sees the one
// with which a counter appears.
func TestCountersThatAlertsLookForAreShownFromTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, g *leadertest.Group, l *lab) {
		e := begin(t.Context(), t, g.Store("a"), l.Hooks())
		all := l.collect(t)
		identity := []attribute.KeyValue{
			attribute.String("role", "reports"), attribute.String("instance_id", "a"), attribute.String("bucket", "leaders"),
		}
		for _, want := range []struct {
			name string
			own  []attribute.KeyValue
		}{
			{"election.failures", []attribute.KeyValue{attribute.String("error_type", leader.NoteRegressed)}},
			{"election.failures", []attribute.KeyValue{attribute.String("error_type", leader.NoteOverrun)}},
			{"election.token_validation.failures", nil},
			{"election.contention", nil},
		} {
			attrs := attribute.NewSet(slices.Concat(identity, want.own)...)
			sum, _ := all[want.name].(metricdata.Sum[int64])
			if !slices.ContainsFunc(sum.DataPoints, func(p metricdata.DataPoint[int64]) bool {
				return p.Attributes.Equals(&attrs) && p.Value == 0
			}) {
				t.Errorf("%s of %v is not 0, but: %+v", want.name, want.own, sum.DataPoints)
			}
		}
		stop(t, e)
	})
}
