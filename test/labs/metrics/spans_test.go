package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderotel"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// trace returns hooks for one process, and the recorder of its spans.
func trace(t *testing.T) (*tracetest.SpanRecorder, leader.Hooks) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	otel, err := leaderotel.New(leaderotel.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))})
	if err != nil {
		t.Fatal(err)
	}
	return recorder, otel.Hooks()
}

// awaitSpan waits until a span of the name has ended.
func awaitSpan(t *testing.T, recorder *tracetest.SpanRecorder, name string) (found sdktrace.ReadOnlySpan) {
	t.Helper()
	natslab.Eventually(t, "the end of "+name, func(context.Context) error {
		ended := recorder.Ended()
		i := slices.IndexFunc(ended, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == name })
		if i < 0 {
			return fmt.Errorf("%d spans have ended", len(ended))
		}
		found = ended[i]
		return nil
	})
	return found
}

func value(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	set := attribute.NewSet(s.Attributes()...)
	v, _ := set.Value(key)
	return v.String()
}

func TestAHandOverOnAServerIsTraced(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	spansA, hooksA := trace(t)
	spansB, hooksB := trace(t)
	a := begin(t, srv.Connect(t), "a", hooksA)
	natslab.Eventually(t, "the leadership of a", func(context.Context) error {
		if !a.IsLeader() {
			return errors.New("it does not lead")
		}
		return nil
	})
	term := a.Term()
	b := begin(t, srv.Connect(t), "b", hooksB)
	following := awaitSpan(t, spansB, "election.campaign")
	if got := value(following, "election.outcome"); got != string(leader.EventFollowing) {
		t.Errorf("the campaign of b ended with %q", got)
	}
	if err := a.Transfer(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	ended, handover := awaitSpan(t, spansA, "election.term"), awaitSpan(t, spansA, "election.handover")
	for key, want := range map[attribute.Key]string{
		"election.group": "reports", "election.instance_id": "a", "election.bucket": "leaders", "election.reason": "transferred",
		"election.term": fmt.Sprint(term.Number), "election.correlation": term.Correlation(),
	} {
		if got := value(ended, key); got != want {
			t.Errorf("%s of the term is %q, want %q", key, got, want)
		}
	}
	if handover.Parent().SpanID() != ended.SpanContext().SpanID() {
		t.Error("the hand-over does not belong to its term")
	}
	natslab.Eventually(t, "the leadership of b", func(context.Context) error {
		if !b.IsLeader() {
			return errors.New("it does not lead")
		}
		return nil
	})
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	next := awaitSpan(t, spansB, "election.term")
	if len(next.Links()) == 0 || !next.StartTime().After(ended.EndTime()) {
		t.Errorf("the term of b began at %v with the links %v; a's term ended at %v", next.StartTime(), next.Links(), ended.EndTime())
	}
}
