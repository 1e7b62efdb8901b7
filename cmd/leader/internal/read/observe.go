package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// An observed is a report to an observer.
type observed struct {
	at      time.Time
	info    leader.LeaderInfo
	renewed bool // a renewal only
	present bool // all that was there at the beginning has been reported
}

// A hearing store notes that it may not be read, and is heard all the same.
type hearing struct {
	app.Reporting

	stderr io.Writer
	end    context.CancelCauseFunc // ends the command with an error
	unread atomic.Pointer[error]   // why groups may not be read
}

// WatchPattern implements [store.PatternWatcher].
func (h *hearing) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	return h.PatternWatcher.WatchPattern(ctx, pattern, deliver, func(err error) {
		// A board watches the control records, too, and reports no failure of
		// theirs.
		if err != nil && !strings.HasPrefix(pattern, inspect.ControlKey("")) {
			h.unread.Store(&err)
		}
		present(err)
	})
}

// failed prints why an observer fails. An error that would not pass ends the
// command if nothing was seen before.
func (h *hearing) failed(err error, sawAny bool) {
	switch unread := h.unread.Load(); {
	case unread != nil && errors.Is(err, *unread):
		app.Say(h.stderr, err)
	case !sawAny && store.Classify(err) == store.Permanent:
		h.end(err)
	default:
		app.Say(h.stderr, fmt.Errorf("trying again: %w", err))
	}
}

// observe hands what is seen of the groups to use, until that ends or ctx is
// done. Troubles are reported on stderr, and end it only if nothing was seen
// before, they would not pass, and nothing will be received.
//
// seen has no room: the observer waits for use, and so skips what was replaced
// meanwhile. It has ended when observe returns, since the caller closes the
// session next.
func observe(outer context.Context, watched store.PatternWatcher, pattern string, stderr io.Writer, use func(context.Context, <-chan observed) error) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	seen := make(chan observed)
	tell := func(x observed) {
		x.at = time.Now()
		select {
		case seen <- x:
		case <-ctx.Done():
		}
	}
	st := &hearing{Reporting: app.Reporting{PatternWatcher: watched}, stderr: stderr, end: cancel}
	sawAny := false
	observer := leader.Observer{
		Leader:  func(info leader.LeaderInfo) { sawAny = true; tell(observed{info: info}) },
		Renewed: func(info leader.LeaderInfo) { tell(observed{info: info, renewed: true}) },
		Present: func() { tell(observed{present: true}) },
		Failed:  func(err error) { st.failed(err, sawAny) },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := leader.ObserveFuncWithStore(ctx, st, pattern, observer); err != nil {
			cancel(err)
		}
	}()
	err := use(ctx, seen)
	if err == nil && outer.Err() == nil {
		err = context.Cause(ctx) // nil if there was enough to use
	}
	cancel(nil)
	<-done
	return err
}
