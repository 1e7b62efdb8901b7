package leader

import (
	"fmt"
	"log/slog"

	"github.com/seed-ff2cb582/leader/internal/leadership"
)

// A token is for the caller to use, and not for logs: a value of this package
// that contains a token shows a short hash in its place, to slog and under the
// verbs of fmt (except %p of a non-pointer, for which fmt calls no method).
// Each type has to implement this: a handler that writes JSON does not ask the
// parts of a value how they want to be shown, and fmt calls String under some
// verbs only. Encoders of JSON and the like write the token, for programs that
// pass it on.

// Format shows the number and a short hash of the token, as String does; the
// number alone for %d.
func (t Term) Format(f fmt.State, verb rune) {
	if verb == 'd' {
		show(f, verb, t.Number)
		return
	}
	show(f, verb, t.String())
}

// Format shows the status with a short hash in the place of the token.
func (s ElectionStatus) Format(f fmt.State, verb rune) { show(f, verb, s.redacted()) }

// Format shows the role with a short hash in the place of the token.
func (r RoleStatus) Format(f fmt.State, verb rune) {
	show(f, verb, struct {
		Name           string
		ElectionStatus redacted
		Leader         LeaderInfo
	}{r.Name, r.redacted(), r.Leader})
}

// Format names the candidate and its group.
func (e election) Format(f fmt.State, verb rune) {
	show(f, verb, fmt.Sprintf("candidate %q of group %q", e.c.ID(), e.c.Group()))
}

func show(f fmt.State, verb rune, value any) { _, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), value) }

// redacted is a status without its token, and without the methods that hide it.
type redacted ElectionStatus

func (s ElectionStatus) redacted() redacted {
	s.Token = leadership.Correlation(s.Token)
	return redacted(s)
}

// LogValue shows the status without the token.
func (s ElectionStatus) LogValue() slog.Value { return slog.GroupValue(s.attrs()...) }

// LogValue shows the role without the token.
func (r RoleStatus) LogValue() slog.Value {
	return slog.GroupValue(append([]slog.Attr{slog.String("role", r.Name)}, r.attrs()...)...)
}

func (s ElectionStatus) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("state", s.State), slog.String("reason", string(s.Reason)), slog.Time("since", s.LastTransition),
		slog.String("leader", s.LeaderID), slog.Uint64("term", s.LeaderTerm), slog.String("connection", s.ConnectionStatus),
	}
	if s.IsLeader {
		attrs = append(attrs, slog.String("correlation", leadership.Correlation(s.Token)), slog.Uint64("revision", s.Revision),
			slog.Time("heartbeat", s.LastHeartbeat), slog.Time("trust_until", s.TrustUntil))
	}
	if s.Barred != "" {
		attrs = append(attrs, slog.String("barred", string(s.Barred)))
	}
	if s.LastError != nil {
		attrs = append(attrs, slog.Any("error", s.LastError), slog.Time("error_at", s.LastErrorAt))
	}
	return attrs
}

// LogValue shows the transition without the token of its term.
func (t Transition) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Time("at", t.At), slog.String("event", string(t.Event)), slog.String("from", t.From), slog.String("to", t.To),
		slog.String("reason", string(t.Reason)), slog.String("by", t.By), slog.String("why", t.Why), slog.Uint64("term", t.Term.Number),
		slog.String("leader", t.LeaderID), slog.Uint64("leader_term", t.LeaderTerm), slog.String("correlation", t.Correlation),
	)
}

// LogValue shows the callback without the token of its term.
func (c Callback) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", c.Kind), slog.Any("term", c.Term), slog.Duration("took", c.Took))
}
