package leader

import "log/slog"

// A Term is shown to logs without its token (Term.LogValue). A handler that writes JSON does not ask the parts of a
// value how they want to be shown, so whatever has a token or a Term in it has to say so itself.

// LogValue shows the status without the token.
func (s ElectionStatus) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("state", s.State), slog.String("reason", string(s.Reason)), slog.Time("since", s.LastTransition),
		slog.String("leader", s.LeaderID), slog.Uint64("term", s.LeaderTerm), slog.String("connection", s.ConnectionStatus),
	}
	if s.IsLeader {
		attrs = append(attrs, slog.String("correlation", correlation(s.Token)), slog.Uint64("revision", s.Revision),
			slog.Time("heartbeat", s.LastHeartbeat), slog.Time("trust_until", s.TrustUntil))
	}
	if s.Barred != "" {
		attrs = append(attrs, slog.String("barred", string(s.Barred)))
	}
	if s.LastError != nil {
		attrs = append(attrs, slog.Any("error", s.LastError), slog.Time("error_at", s.LastErrorAt))
	}
	return slog.GroupValue(attrs...)
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
