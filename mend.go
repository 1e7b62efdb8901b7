package leader

import (
	"context"
	mrand "math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A mend is how a candidate that knows its group to be paused puts that back when something that nobody can read was
// written over it. Otherwise those that start later would lead the group beside others that go on as paused.
type mend struct {
	// revision is what is to be replaced, 0 for nothing.
	revision uint64
	flying   bool
}

// mended is how an attempt to replace a revision ended.
type mended struct {
	revision uint64
	err      error
}

// garbled takes in that the control record cannot be read. That changes nothing of what is known; and who knows nothing yet
// waits for the repair, as one does that may not read the record.
func (l *loop) garbled(again bool) {
	if again {
		return
	}
	text := "the control record cannot be read, and is ignored"
	if l.state.Barred&machine.Paused != 0 {
		text = "the control record cannot be read: the group stays paused, and that is written there again"
		l.mend.revision = l.controlled
	}
	l.report(Note{At: time.Now(), Kind: NoteGarbled, Text: text})
	l.mendControl()
}

// mendControl writes the pause again, over that very revision. It waits a little before, since all others that know of
// it do the same, and no longer than those that start wait for it.
func (l *loop) mendControl() {
	m := &l.mend
	if m.flying || m.revision == 0 {
		return
	}
	m.flying = true
	cfg, revision := l.e.cfg, m.revision
	pause := record.Control{Paused: l.control.Paused, Unknown: l.control.Unknown}
	rest := time.Duration(mrand.Int64N(int64(cfg.HeartbeatInterval)))
	l.spawn("mend", func() {
		if !sleep(l.ctx, rest) {
			return
		}
		ctx, cancel := context.WithTimeout(l.ctx, cfg.ConnectionTimeout)
		defer cancel()
		err := writeControl(ctx, l.e.sheltered(), record.ControlKey(cfg.Group), revision, pause)
		l.e.mail.put(letter{mended: &mended{revision, err}})
	})
}

// mended takes in how an attempt ended. A conflict shows that somebody has replaced it already.
func (l *loop) mended(m mended) {
	l.mend.flying = false
	done := false
	switch store.Classify(m.err) {
	case store.OK, store.Conflict, store.Permanent:
		done = true
	default:
	}
	if done && l.mend.revision == m.revision {
		l.mend.revision = 0
	}
	l.mendControl()
}
