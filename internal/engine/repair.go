package engine

import (
	mrand "math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A repair is how a candidate that knows its group to be paused puts that back
// when something that nobody can read was written over it. Otherwise those that
// start later would lead the group beside others that go on as paused. It is
// made when it is needed first: hardly any candidate ever needs one.
type repair struct {
	env *env
	// revision is what is to be replaced, 0 for nothing.
	revision uint64
	sending  bool
}

// repaired is how an attempt to replace a revision ended.
type repaired struct {
	revision uint64
	err      error
}

// begin has a revision of the control record replaced by the pause that was
// known before.
func (r *repair) begin(revision uint64, known *record.Control) {
	r.revision = revision
	r.send(known)
}

// end takes in that the control record can be read.
func (r *repair) end() {
	if r != nil {
		r.revision = 0
	}
}

// send writes the pause again, over that very revision. It waits a little
// before, since all others that know of the pause do the same, and no longer
// than those that start wait for it.
func (r *repair) send(known *record.Control) {
	if r.sending || r.revision == 0 {
		return
	}
	r.sending = true
	e, revision := r.env, r.revision
	var pause record.Control
	if known != nil {
		// The pause alone, with what later versions may add. A request that
		// stood beside it has been heard, and written anew it would be heard
		// again.
		pause = record.Control{Paused: known.Paused, Unknown: known.Unknown}
	}
	wait := time.Duration(mrand.Int64N(int64(e.cfg.HeartbeatInterval)))
	e.spawn("repair", func() {
		if !backoff.Sleep(e.ctx, wait) {
			return
		}
		ctx, cancel := e.bounded()
		defer cancel()
		err := controlrecord.Write(ctx, &e.store, record.ControlKey(e.cfg.Group), revision, pause)
		e.inbox.put(&message{repaired: &repaired{revision, err}})
	})
}

// sent takes in how an attempt ended. A conflict shows that somebody has
// replaced it already.
func (r *repair) sent(m repaired, known *record.Control) {
	r.sending = false
	done := false
	switch store.Classify(m.err) {
	case store.OK, store.Conflict, store.Permanent:
		done = true
	default:
	}
	// A newer one may have come while this attempt was under way.
	if done && r.revision == m.revision {
		r.revision = 0
	}
	r.send(known)
}
