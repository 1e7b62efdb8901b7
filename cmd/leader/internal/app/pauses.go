package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// The delays before what cannot be watched is tried again. A right that is
// missing is granted rarely, and the server logs each attempt.
const (
	retry       = time.Second
	retryDenied = 30 * time.Second
)

// FollowPauses watches the control records of the groups that match a pattern
// until ctx is done. tell is called with each, and with the pause in force, nil
// for none. If the pattern matches all groups, drains is also called with
// each order by which an instance is drained, and its key; drains may be nil.
// present is called, perhaps repeatedly, when both have been called with all
// existing records, or when they cannot be read: a user without the right learns
// of no pause.
//
// It calls them one at a time, and they must not block.
func FollowPauses(ctx context.Context, st store.PatternWatcher, pattern string, tell func(group string, p *inspect.Pause),
	drains func(key string, d inspect.Drain, drained bool), present func(),
) {
	deliver := func(e store.Entry) {
		if store.MatchPattern(inspect.DrainKeys, e.Key) {
			if d, drained, ok := inspect.ReadDrain(e); ok && drains != nil {
				drains(e.Key, d, drained)
			}
			return
		}
		// Candidates ignore a malformed record: the pause that it replaced
		// remains in force.
		if c, ok := inspect.ReadControl(e); ok {
			tell(strings.TrimPrefix(e.Key, inspect.ControlKey("")), c.Paused)
		}
	}
	for {
		stop, err := st.WatchPattern(ctx, inspect.ControlKey(pattern), deliver, func(error) { present() })
		if err == nil {
			<-ctx.Done()
			stop()
			return
		}
		present()
		wait := retry
		if errors.Is(err, nats.ErrPermissionViolation) {
			wait = retryDenied
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
