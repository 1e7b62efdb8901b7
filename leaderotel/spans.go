package leaderotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/telemetry"
)

// spans are the spans of one election. All fields belong to the election's
// goroutine. At most one span is open: the one of the current state.
type spans struct {
	tracer trace.Tracer
	attrs  []attribute.KeyValue

	open trace.Span // of the current state; nil in FOLLOWER and before the start
	term trace.Span // of the current term, from before its promotion is reported; else nil
	last trace.Span // the last hand-over
}

func identify(id telemetry.Identity) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("election.group", id.Group),
		attribute.String("election.instance_id", id.InstanceID),
		attribute.String("election.bucket", id.Bucket),
	}
}

func (s *spans) hooks() leader.Hooks {
	return leader.Hooks{Transition: s.transition, Call: s.call, Note: s.note, TermContext: s.beginTerm}
}

// beginTerm starts the span of a term, and puts it into the term's context.
func (s *spans) beginTerm(ctx context.Context, term leader.Term) context.Context {
	var links []trace.Link
	for _, from := range []trace.Span{s.open, trace.SpanFromContext(ctx)} {
		if from != nil && from.SpanContext().IsValid() {
			links = append(links, trace.Link{SpanContext: from.SpanContext()})
		}
	}
	ctx, s.term = s.tracer.Start(ctx, "election.term", trace.WithNewRoot(), trace.WithLinks(links...), trace.WithAttributes(s.attrs...))
	s.term.SetAttributes(identifyTerm(term)...)
	if s.open != nil {
		s.open.AddLink(trace.Link{SpanContext: s.term.SpanContext()})
	}
	return ctx
}

func identifyTerm(t leader.Term) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int64("election.term", int64(t.Number)), attribute.String("election.correlation", t.Correlation()),
	}
}

func (s *spans) transition(t leader.Transition) {
	s.end(t)
	switch t.To {
	case leader.StateCandidate:
		s.start(context.Background(), "election.campaign", t, s.last)
		s.open.SetAttributes(attribute.String("election.reason", string(t.Reason)))
	case leader.StateLeader:
		s.open = s.term
	case leader.StateDemoted:
		s.start(trace.ContextWithSpan(context.Background(), s.term), "election.handover", t, nil)
		if !t.Term.IsZero() {
			s.open.SetAttributes(identifyTerm(t.Term)...)
		}
		s.last, s.term = s.open, nil
	case leader.StateStopped:
		// That of a leader was the one of its state, and has ended above.
		if s.term != nil && t.From != leader.StateLeader {
			s.abandon(t)
		}
	}
}

// abandon ends the span of a term whose promotion was never reported: the
// election crashed between the two.
func (s *spans) abandon(t leader.Transition) {
	s.term.SetAttributes(ending(t)...)
	s.term.SetStatus(codes.Error, string(t.Reason))
	s.term.End(trace.WithTimestamp(t.At))
}

// start opens the span of a state, with a link to another one, if there is one.
func (s *spans) start(ctx context.Context, name string, t leader.Transition, link trace.Span) {
	opts := []trace.SpanStartOption{trace.WithTimestamp(t.At), trace.WithAttributes(s.attrs...)}
	if link != nil {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: link.SpanContext()}))
	}
	_, s.open = s.tracer.Start(ctx, name, opts...)
}

// end ends the span of the state that t leaves.
func (s *spans) end(t leader.Transition) {
	if s.open == nil {
		return
	}
	switch t.From {
	case leader.StateCandidate:
		s.open.SetAttributes(attribute.String("election.outcome", string(t.Event)))
	case leader.StateLeader:
		s.open.SetAttributes(ending(t)...)
		if !t.Reason.Asked() {
			s.open.SetStatus(codes.Error, string(t.Reason))
		}
	}
	s.open.End(trace.WithTimestamp(t.At))
	s.open = nil
}

// ending describes why a term ended.
func ending(t leader.Transition) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("election.reason", string(t.Reason))}
	if t.By != "" {
		attrs = append(attrs, attribute.String("election.by", t.By))
	}
	if t.Why != "" {
		attrs = append(attrs, attribute.String("election.why", t.Why))
	}
	return attrs
}

// call makes an event of a write, unless it is one of the many renewals that
// succeed.
func (s *spans) call(c leader.Call) {
	if s.open == nil || c.Kind == "renew" && c.Outcome == store.OK || c.Kind == "read" {
		return
	}
	attrs := []attribute.KeyValue{
		attribute.String("election.outcome", c.Outcome.String()), attribute.Float64("election.took", c.Took.Seconds()),
	}
	if c.Err != nil {
		attrs = append(attrs, attribute.String("election.error", bounded(c.Err.Error())))
	}
	s.open.AddEvent(c.Kind, trace.WithTimestamp(c.Sent.Add(c.Took)), trace.WithAttributes(attrs...))
}

// maxText cuts texts, such as the stack of a panic.
const maxText = 4 << 10

// bounded makes an attribute of the text of a store's error or the program's
// panic. An OTLP exporter refuses the whole batch for one string that is not
// UTF-8.
func bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

func (s *spans) note(n leader.Note) {
	if s.open == nil {
		return
	}
	attrs := []attribute.KeyValue{attribute.String("election.text", bounded(n.Text))}
	if n.Call != "" {
		attrs = append(attrs, attribute.String("election.call", n.Call))
	}
	s.open.AddEvent(n.Kind, trace.WithTimestamp(n.At), trace.WithAttributes(attrs...))
}
