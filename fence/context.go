package fence

import (
	"context"

	"github.com/seed-ff2cb582/leader"
)

type contextKey struct{}

// NewContext returns a context of work in a term that a guard has let in. It is
// for guards that carry terms, such as packages httpfence and leadergrpc.
func NewContext(ctx context.Context, t leader.Term) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// FromContext returns the term that a guard has let in for the work of ctx, for
// a handler that passes it on to a further guard (package sqlfence). It is not
// the term of this program (leader.TermFromContext).
func FromContext(ctx context.Context) (leader.Term, bool) {
	t, ok := ctx.Value(contextKey{}).(leader.Term)
	return t, ok
}
