package natsfence

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
)

// A Stream publishes to a stream in one term. It may be used concurrently.
type Stream struct{ guard *guard }

// OpenStream raises the guard at a subject of a stream to the term, unless the
// guard has a newer one already. The subject is the group's alone, belongs to
// the stream, and is best one that no consumer asks for. The package
// documentation lists the errors. The call ends with ctx, or after 5 seconds if
// that has no deadline; the opened Stream does not depend on ctx.
func OpenStream(ctx context.Context, js jetstream.JetStream, stream, guardSubject string, t leader.Term) (*Stream, error) {
	if !literal(guardSubject) {
		return nil, fmt.Errorf("%w: subject %q", fence.ErrInvalid, guardSubject)
	}
	g, err := open(ctx, js, stream, guardSubject, guardSubject, t)
	if err != nil {
		return nil, err
	}
	return &Stream{g}, nil
}

// Warnings are full sentences on what weakens the guard in this stream, each
// with what and why.
func (s *Stream) Warnings() []string { return s.guard.warnings }

// Publish stores a message if no newer term has started in this stream. The
// call ends with ctx, or after 5 seconds if that has no deadline.
func (s *Stream) Publish(ctx context.Context, subject string, data []byte) (*jetstream.PubAck, error) {
	return s.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data})
}

// PublishMsg is Publish with headers. Of those that begin with "Nats-", which
// the server acts on, Nats-Msg-Id and Nats-TTL are allowed. The others would
// replace the guard's condition (Nats-Expected-…), erase the guard
// (Nats-Rollup) or have the server write later without it (Nats-Schedule-…). m
// is not changed.
//
// An acknowledgement with Duplicate set means that the message was stored
// before, and nothing now. A replicated stream answers a stale leader so, too,
// since it looks at Nats-Msg-Id first. While an earlier message with the same
// ID is being replicated, the call waits for its outcome; if that does not
// come, the outcome is store.ErrUnknown.
func (s *Stream) PublishMsg(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	if !literal(m.Subject) || m.Subject == s.guard.subject {
		return nil, fmt.Errorf("%w: subject %q", fence.ErrInvalid, m.Subject)
	}
	for name := range m.Header {
		own := len(name) >= 5 && strings.EqualFold(name[:5], "Nats-")
		if own && name != jetstream.MsgIDHeader && name != jetstream.MsgTTLHeader {
			return nil, fmt.Errorf("%w: header %q", fence.ErrInvalid, name)
		}
	}
	return s.guard.write(ctx, m)
}

// literal reports whether a subject is one that can be published to: without
// wildcards, blanks and empty parts.
func literal(subject string) bool {
	if strings.ContainsAny(subject, " \t\r\n\x00") {
		return false
	}
	for part := range strings.SplitSeq(subject, ".") {
		if part == "" || part == "*" || part == ">" {
			return false
		}
	}
	return true
}
