package registry

import (
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A register is a key that somebody watches.
type register struct {
	key     string
	watches []*watch.Watch

	// entry is the newest state known, and what the watches heard last. Known
	// reports whether there is one, which older states must not replace.
	entry  store.Entry
	doubts watch.Doubts
	least  uint64 // what the stream's leader named: an older state is a copy's that lags

	failures  int       // of reads, in a row
	nextRead  time.Time // not before
	confirmAt time.Time // when the state is confirmed; zero: no confirmation is due
	shown     uint64    // the latest consumer that showed the current state

	told           time.Time // when the state was heard or read last
	earlier, later *register // in the order of that

	// Together, which saves a fifth of a register: an election has two.
	known      bool
	stale      bool // the current state is to be read
	reading    bool // and is being read
	unreadable bool // the user may not read; only the source delivers the state
	confirm    bool // the next successful read is to be confirmed
	spare      bool // the read is due unless a new consumer comes first
	check      bool // the read is due only since nothing was heard for long

	alone uint8 // reads in a row that found too little while the leader did not answer
}

// An order of registers goes through them: there may be 20,000, and an element
// of a list for each costs more than the rest of what this needs.
type order struct{ first, last *register }

// push adds a register at the end.
func (o *order) push(r *register) {
	r.earlier, r.later = o.last, nil
	if o.last == nil {
		o.first = r
	} else {
		o.last.later = r
	}
	o.last = r
}

// remove takes out a register that was added.
func (o *order) remove(r *register) {
	if r.earlier == nil {
		o.first = r.later
	} else {
		r.earlier.later = r.later
	}
	if r.later == nil {
		o.last = r.earlier
	} else {
		r.later.earlier = r.earlier
	}
}

func (g *Registry) toRead(r *register) {
	r.stale, r.spare, r.check = true, false, false
	g.unsettled[r] = struct{}{}
}

// missed notes that something may have been missed. The registry reads the
// current state, and delivers it to every watch even if it is the known one.
func (g *Registry) missed(r *register) {
	r.nextRead, r.failures, r.confirm = time.Time{}, 0, true
	g.toRead(r)
	for _, w := range r.watches {
		w.Await(r.key)
	}
}

func (g *Registry) refresh(r *register, now time.Time, due func(time.Time)) {
	if !r.confirmAt.IsZero() {
		if now.Before(r.confirmAt) {
			due(r.confirmAt)
		} else {
			r.confirmAt, r.stale = time.Time{}, true
		}
	}
	switch {
	case !r.stale || r.reading || r.unreadable:
	case now.Before(r.nextRead):
		due(r.nextRead)
	case g.reads < g.readsMost: // else an answer brings the loop back here
		g.read(r, now)
	}
	if r.confirmAt.IsZero() && (!r.stale || r.unreadable) {
		delete(g.unsettled, r)
	}
}

func (g *Registry) read(r *register, now time.Time) {
	g.sources.DoubtFor(r.key)
	r.stale, r.reading = false, true
	g.reads++
	late, stream, check := false, g.stream, r.check
	r.check = false
	g.owner.Read(r.key, now, func(e store.Entry, ok bool) {
		if g.keys[r.key] != r {
			return
		}
		if late {
			if ok && stream == g.stream {
				g.foundLate(r, e)
			}
			return
		}
		late = true
		r.reading = false
		g.reads--
		switch {
		case ok:
			g.spoke(r, time.Now())
			g.found(r, e)
		case !check: // else the next silence is soon enough
			g.retry(r)
		}
	})
}

func (g *Registry) retry(r *register) {
	g.toRead(r)
	r.nextRead = time.Now().Add(watch.RetryAfter(r.failures))
	r.failures++
}

// found handles the state that a read brought.
func (g *Registry) found(r *register, e store.Entry) {
	if r.known && e.Revision < r.entry.Revision {
		g.doubt(r, e)
		return
	}
	if e.Revision < r.least || e.Revision == 0 && r.confirm {
		g.doubtful = append(g.doubtful, finding{r, e})
		g.ask()
		return
	}
	g.believe(r, e)
}

// A finding is a read that a lagging copy may have answered: it shows nothing,
// or less than the revision that the stream's leader has named. An answer "not
// found" does not name the stream that gave it.
type finding struct {
	r *register
	e store.Entry
}

// aloneMost is how many such reads in a row are believed if the stream's leader
// does not answer.
const aloneMost = 8

// ask asks the stream's leader about the findings, about all that come
// meanwhile together: thousands of elections may begin at once, and the control
// records of most were never written.
func (g *Registry) ask() {
	if g.asking || len(g.doubtful) == 0 {
		return
	}
	these := g.doubtful
	g.doubtful = nil
	if !g.owner.Informed() {
		for _, f := range these {
			g.judge(f, wire.State{}, false)
		}
		return
	}
	g.asking = true
	pattern := these[0].r.key
	if len(these) > 1 {
		pattern = ">"
	}
	g.owner.AskLeader(pattern, func(state wire.State, ok bool) {
		g.asking = false
		for _, f := range these {
			g.judge(f, state, ok && state.Whole())
		}
		g.ask()
	})
}

func (g *Registry) judge(f finding, state wire.State, told bool) {
	r, e := f.r, f.e
	erased := e.Revision == 0 && !state.Has(r.key)
	switch {
	case g.keys[r.key] != r:
		return
	case r.known && e.Revision < r.entry.Revision: // something was heard meanwhile
		g.retry(r)
		return
	case !told:
		r.alone++
		if r.alone < aloneMost {
			g.toRead(r)
			r.nextRead = time.Now().Add(watch.RetryFirst)
			return
		}
	case !erased && (e.Revision == 0 || state.LastSequence >= r.least):
		g.retry(r)
		return
	}
	r.alone, r.least = 0, 0
	g.believe(r, e)
}

// believe takes in the state that a read brought.
func (g *Registry) believe(r *register, e store.Entry) {
	r.failures = 0
	if r.known && e.Revision > r.entry.Revision {
		g.sources.Owes(r.key)
	}
	if !g.sources.Brings(r.key) {
		// No source reports changes until the key's source is ready.
		g.toRead(r)
		r.nextRead, r.spare = time.Now().Add(g.pollEvery()), true
	} else if r.confirm {
		r.confirm = false
		if g.sources.Lossy(r.key) {
			r.confirmAt = time.Now().Add(confirmAfter)
			g.unsettled[r] = struct{}{}
		}
	}
	g.observe(r, e)
}

// foundLate handles the state from a read that had counted as lost. The read
// that replaced it decides; meanwhile the watches get the late state if it is
// not older than the known one.
func (g *Registry) foundLate(r *register, e store.Entry) {
	if !r.known || e.Revision >= r.entry.Revision {
		g.observe(r, e)
	}
}

// observe records a state and delivers it to those who do not know it.
func (g *Registry) observe(r *register, e store.Entry) {
	changed := !r.known || e.Revision != r.entry.Revision
	r.known, r.entry, r.doubts = true, e, watch.Doubts{}
	if changed && len(r.watches) == 1 {
		g.deliver(r.watches[0], r.key, e) // whatever becomes of it, nobody comes after it
		return
	}
	if changed {
		for _, w := range r.watches { // first, for those that come after one that ends this goroutine
			w.Await(r.key)
		}
	}
	var few [2]*watch.Watch // mostly enough
	for _, w := range append(few[:0], r.watches...) {
		if w.Awaits(r.key) {
			g.deliver(w, r.key, e)
		}
	}
}

func (g *Registry) deliver(w *watch.Watch, key string, e store.Entry) {
	if w.Stopped() {
		return
	}
	if w.Awaits(key) {
		g.begun++
	}
	w.Received(key)
	g.owner.Call(w, func() { w.Deliver(e) })
	w.Begin()
}

// doubt handles a read that shows an older state than the known one: either the
// answering replica lags behind, or the stream lost its state, or it is another
// stream.
//
// The stream's leader is asked which. A stream made at another time is another
// one. Else a state is believed to be lost when several reads in a row show it
// so and the leader never contradicts. Reads by which no leader answered count
// from some time on alone.
func (g *Registry) doubt(r *register, e store.Entry) {
	if r.doubts.Grow() {
		r.known = false
		g.missed(r)
		g.observe(r, e)
		return
	}
	g.owner.AskLeader(r.key, func(state wire.State, ok bool) {
		switch {
		case g.keys[r.key] != r:
			return
		case !ok:
			r.doubts.Unanswered()
			g.retry(r)
			return
		case !r.known: // it is another stream
			return
		}
		erased := e.Revision == 0 && !state.Has(r.key)
		if !erased && state.LastSequence >= r.entry.Revision {
			// The replica lags. The known state was stored, and newer writes
			// will follow.
			g.observe(r, r.entry)
		}
		g.retry(r)
	})
}

// Heard handles a write that the key's source brought.
func (g *Registry) Heard(e store.Entry) {
	if r := g.keys[e.Key]; r != nil {
		g.spoke(r, time.Now())
		g.heard(r, e)
	}
}

func (g *Registry) heard(r *register, e store.Entry) {
	switch {
	case !r.known || e.Revision > r.entry.Revision:
		g.owner.Heard()
		g.observe(r, e)
	case e.Revision == r.entry.Revision:
		r.doubts = watch.Doubts{}
	default:
		g.overtaken(r, e)
	}
}

// overtaken handles a write that is older than the known state: a late message,
// or the first write to a stream that was made again.
//
// A read decides which. Messages do not, however many: a read shows at once
// what a busy source has yet to deliver. A user that may not read has nothing
// but messages to go by.
func (g *Registry) overtaken(r *register, e store.Entry) {
	if !r.unreadable {
		g.toRead(r)
		return
	}
	if r.doubts.Grow() {
		g.observe(r, e)
	}
}

// Shown handles an entry of the current state, which a new consumer shows
// first. The watches that wait for the key receive it even if it is the known
// one. The number identifies the consumer.
func (g *Registry) Shown(e store.Entry, consumer uint64) {
	r := g.keys[e.Key]
	if r == nil {
		return
	}
	r.shown = consumer
	if r.known && e.Revision == r.entry.Revision {
		g.observe(r, e)
		return
	}
	g.heard(r, e)
}

// Complete handles the end of the current state that a new consumer shows. If
// the consumer did not show the key, and it was not known to be absent, the key
// may be gone: it is read.
func (g *Registry) Complete(key string, consumer uint64) {
	r := g.keys[key]
	if r == nil {
		return
	}
	absent := r.known && r.entry.Revision == 0
	switch {
	case r.shown != consumer && !absent:
		g.ReadNow(key)
		return
	case absent:
		g.observe(r, r.entry)
	}
	if r.spare {
		r.stale, r.spare = false, false
	}
}

// Lost notes that the key's consumer is lost. The key is read, though not
// before the next consumer has had time to show the key if many keys share it:
// it is there sooner than the answers to so many reads.
func (g *Registry) Lost(key string, shared bool) {
	r := g.keys[key]
	if r == nil {
		return
	}
	g.missed(r)
	if shared {
		r.nextRead, r.spare = time.Now().Add(watch.RetryMost), true
	}
}
