package leader

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// An inbox is what a store delivered and an observer has not taken: of each key the latest state, and the first vacancy that it
// replaced, in the order in which the keys began to wait. So a slow observer costs memory by the number of keys, holds
// the store up never, and misses no last state.
type inbox struct {
	wake chan struct{} // holds one if something waits

	mu      sync.Mutex
	waiting map[string]arrival
	order   []string // the keys of waiting; endMark for the end of the present state
}

// An arrival is an entry and when it arrived, which is what its lease counts from, or the end of the present state.
type arrival struct {
	entry store.Entry
	at    time.Time
	end   bool
	err   error // why the present state cannot be read
	// vacancy, if not nil, is one that came before the entry and that nobody
	// has taken. It alone says why the leader whom the observer knows left, and
	// a successor that waits replaces it within a millisecond.
	vacancy *store.Entry
}

// isVacancy reports whether a leader's parting words may stand in an entry.
func isVacancy(e store.Entry) bool { return e.Tombstone && len(e.Value) > 0 }

// endMark stands for the end of the present state among the keys. No key is empty.
const endMark = ""

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), waiting: make(map[string]arrival)}
}

// offer puts an entry in, in place of one of the same key.
func (in *inbox) offer(e store.Entry) { in.put(e.Key, arrival{entry: e, at: time.Now()}) }

// mark puts the end of the present state in, behind all that waits. One that waits there already
// is moved back, since it may have told of an error that is over.
func (in *inbox) mark(err error) { in.put(endMark, arrival{end: true, err: err}) }

func (in *inbox) put(key string, a arrival) {
	in.mu.Lock()
	defer in.mu.Unlock()
	before, waits := in.waiting[key]
	if waits && key == endMark {
		in.order = slices.DeleteFunc(in.order, func(k string) bool { return k == endMark })
	}
	if !waits || key == endMark {
		in.order = append(in.order, key)
	}
	if a.vacancy = before.vacancy; a.vacancy == nil && isVacancy(before.entry) {
		a.vacancy = &before.entry
	}
	in.waiting[key] = a
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take takes out what waits longest.
func (in *inbox) take() (a arrival, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.order) == 0 {
		return a, false
	}
	key := in.order[0]
	in.order = in.order[1:]
	a = in.waiting[key]
	delete(in.waiting, key)
	return a, true
}

// expiries is a heap of the groups that somebody leads, the one whose lease runs out first on top.
type expiries []*observedGroup

// place puts a group where its Until belongs, or takes it out if nobody leads.
func (x *expiries) place(s *observedGroup) {
	switch held := s.last.ID != ""; {
	case held && s.index < 0:
		heap.Push(x, s)
	case held:
		heap.Fix(x, s.index)
	case s.index >= 0:
		heap.Remove(x, s.index)
	}
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (x *expiries) Len() int           { return len(*x) }
func (x *expiries) Less(i, j int) bool { return (*x)[i].last.Until.Before((*x)[j].last.Until) }
func (x *expiries) Swap(i, j int) {
	h := *x
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (x *expiries) Push(s any) {
	g := s.(*observedGroup) //nolint:errcheck,forcetypeassert // only place pushes
	g.index = len(*x)
	*x = append(*x, g)
}

func (x *expiries) Pop() any {
	last := len(*x) - 1
	s := (*x)[last]
	(*x)[last] = nil
	*x = (*x)[:last]
	s.index = -1
	return s
}
