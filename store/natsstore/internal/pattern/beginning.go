package pattern

import (
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// askMost is how often the stream's leader is asked before another consumer is
// to bring what this one owes. Where there is none it is asked on: the next
// direct get may be answered by another replica.
const askMost = 10

// rereadAfter is when a direct get is repeated that showed less than there is:
// a replica lags by some milliseconds.
const rereadAfter = 50 * time.Millisecond

// A beginning records which keys a view still awaits before its current state
// is complete. The replica that answers a direct get, or that serves a
// consumer, may lag behind, and then shows less than the store holds. Even with
// a server outside of a cluster, a consumer may miss a key. If the key is
// written meanwhile, its old message is gone when its turn comes, and the new
// one may not count yet among the pending messages. This happened in one of
// 9,000 beginnings (TestTheCurrentStateHasEachKeyThatIsWrittenMeanwhile). So
// the view asks the stream's leader which keys there are, and awaits the keys
// that were not shown. Only the keys of the first answer count, so that the
// beginning ends even if further keys are written without a pause.
type beginning struct {
	owed   map[string]struct{} // nil before the first answer
	number int                 // of the latest question; an earlier one is void
	asks   int                 // questions so far
	askAt  time.Time           // when to ask again; zero: not by time
}

// void ends what is awaited. Another survey follows, or none is possible.
func (b *beginning) void() { *b = beginning{number: b.number + 1} }

// finish reports that the current state is complete, as soon as it is.
func (v *View) finish() {
	v.beginning.void()
	if v.source == nil || !v.owner.Informed() {
		v.presented(nil)
		return
	}
	v.askKeys()
}

func (v *View) askKeys() {
	b := &v.beginning
	b.number++
	b.asks++
	b.askAt = time.Time{}
	number := b.number
	v.owner.AskLeader(v.pattern, func(state wire.State, ok bool) {
		if number == v.beginning.number && !v.ended {
			v.keysAre(state, ok)
		}
	})
}

// keysAre takes the keys that exist according to the stream's leader. If the
// leader did not answer, the keys that were shown count as complete. If a key
// was shown and the leader no longer has it, the current state is read once
// more: the replica may not have received the deletion yet.
func (v *View) keysAre(state wire.State, ok bool) {
	b, owed := &v.beginning, make(map[string]struct{})
	for key := range state.Keys() {
		_, before := b.owed[key]
		if (before || b.owed == nil) && !v.ledger.knows(key) {
			owed[key] = struct{}{}
		}
	}
	b.owed = owed
	if ok && v.ledger.exceeds(state) {
		v.wanted, v.nextRead = true, time.Now().Add(confirmAfter)
	}
	switch {
	case !ok || len(owed) == 0:
		b.void()
		v.presented(nil)
	case v.source != nil && !v.source.Consumer():
		b.askAt = time.Now().Add(confirmAfter)
		v.wanted, v.nextRead = true, time.Now().Add(rereadAfter)
	case b.asks >= askMost:
		v.wanted = true
	default: // a consumer goes on by itself
		b.askAt = time.Now().Add(confirmAfter)
	}
}

// arrived notes that a key was delivered.
func (v *View) arrived(key string) {
	b := &v.beginning
	if _, ok := b.owed[key]; !ok {
		return
	}
	delete(b.owed, key)
	if len(b.owed) == 0 {
		b.void()
		v.presented(nil)
	}
}

// askAgain asks which of the keys owed there still are, when that is due: one
// that was erased never comes.
func (v *View) askAgain(now time.Time, due func(time.Time)) {
	switch at := v.beginning.askAt; {
	case at.IsZero():
	case now.Before(at):
		due(at)
	default:
		v.askKeys()
	}
}
