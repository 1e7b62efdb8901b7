package observation

import (
	"time"

	"github.com/seed-ff2cb582/leader/internal/latest"
	"github.com/seed-ff2cb582/leader/store"
)

// An inbox is what a store delivered and an observer has not taken: of each key
// the latest state, and the first vacancy that it replaced. So a slow observer
// costs memory by the number of keys, never holds the store up, and misses no
// last state.
type inbox struct{ *latest.Queue[string, arrival] }

// An arrival is an entry and when it arrived, which is what its lease counts
// from, or the end of the current state, or a failure to read.
type arrival struct {
	entry  store.Entry
	at     time.Time
	end    bool
	failed bool
	err    error // why the current state cannot be read, or why reading fails
	// vacancy, if not nil, is one that came before the entry and was not taken
	// yet. It alone contains why the leader that the observer knows left, and a
	// waiting successor replaces it within a millisecond.
	vacancy *store.Entry
}

// These mark the end of the current state, and a read that failed, among the
// keys. No key is empty or has a space in it.
const (
	endMark  = ""
	failMark = " "
)

func newInbox() inbox {
	q := latest.New[string, arrival]()
	q.Merge = func(waiting, next arrival) arrival {
		if next.vacancy = waiting.vacancy; next.vacancy == nil && isVacancy(waiting.entry) {
			next.vacancy = &waiting.entry
		}
		return next
	}
	return inbox{q}
}

// isVacancy reports whether an entry may contain a leader's parting words.
func isVacancy(e store.Entry) bool { return e.Tombstone && len(e.Value) > 0 }

// put puts an entry in, in place of one of the same key.
func (in inbox) put(e store.Entry) { in.Put(e.Key, arrival{entry: e, at: time.Now()}) }

// mark puts the end of the current state in, behind all that waits. A mark that
// waits there already moves back, since it may contain an error that is over.
func (in inbox) mark(err error) { in.PutLast(endMark, arrival{end: true, err: err}) }

// fail puts in why reading fails, behind all that waits.
func (in inbox) fail(err error) { in.PutLast(failMark, arrival{failed: true, err: err}) }
