package natsstore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// maxDoubts is how often in a row a register may show an older state than the
// one known before that is believed of a stream which was not made anew.
const maxDoubts = 4

// A register is a key that somebody watches.
type register struct {
	key     string
	feed    *feed
	watches []*watch

	// entry is the newest state known, and what the watches heard last; known
	// tells that there is one which older states must not replace.
	known bool
	entry store.Entry

	stale      bool // the present state is to be read
	reading    bool // and is being read
	unreadable bool // the user may not read; only live messages tell the state
	nextRead   time.Time
	attempts   int
	confirm    bool      // the next successful read is to be confirmed
	confirmAt  time.Time // when; zero: no confirmation is due
	shown      uint64    // number of the consumer that showed the present state, of its feed's
	spare      bool      // the read is due unless a new consumer shows the present state first
	doubts     int       // older states seen in a row
}

// toRead notes that the register's present state is to be read.
func (h *hub) toRead(r *register) {
	r.stale, r.spare = true, false
	h.unsettled[r] = struct{}{}
}

// missed: something may have been missed of the register. The present state is
// read, and delivered to every watch even if it is the known one.
func (h *hub) missed(r *register) {
	r.nextRead, r.attempts, r.confirm = time.Time{}, 0, true
	h.toRead(r)
	for _, w := range r.watches {
		w.pending[r.key] = true
	}
}

// renounce gives up reading a key that the user may not read.
func (h *hub) renounce(key string) {
	r := h.registers[key]
	if r == nil || r.unreadable {
		return
	}
	r.unreadable = true
	for _, w := range slices.Clone(r.watches) {
		delete(w.pending, key)
		h.begun(w)
	}
}

// refresh reads the register if that is due.
func (h *hub) refresh(r *register, now time.Time, due func(time.Time)) {
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
	case h.reads < cap(h.in)/readShare: // else an answer brings the loop back here
		h.read(r, now)
	}
	if r.confirmAt.IsZero() && (!r.stale || r.unreadable) {
		delete(h.unsettled, r)
	}
}

func (h *hub) read(r *register, now time.Time) {
	r.stale, r.reading = false, true
	h.reads++
	subject, body, decode := h.s.directSubject(r.key), []byte(nil), directEntry
	if h.s.noDirect.Load() {
		subject, body, decode = h.s.api+"STREAM.MSG.GET."+h.s.stream, h.s.lastMessageRequest(r.key), indirectEntry
	}
	h.ask(now.Add(readTimeout), subject, body, func(m *nats.Msg) {
		if h.registers[r.key] != r {
			return
		}
		r.reading = false
		h.reads--
		if m == nil {
			h.retry(r)
			return
		}
		e, err := decode(r.key, m)
		if err != nil {
			h.lastErr = fmt.Errorf("reading %q: %w", r.key, err)
			h.auditSoon(err)
			h.retry(r)
			return
		}
		h.found(r, e)
	})
}

// auditSoon: when nobody answers, the stream may be gone, or refuse direct
// gets.
func (h *hub) auditSoon(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		if soon := time.Now().Add(retryMost); h.auditAt.After(soon) {
			h.auditAt = soon
		}
	}
}

// retry reads the register again after a growing pause.
func (h *hub) retry(r *register) {
	h.toRead(r)
	r.nextRead = time.Now().Add(min(retryFirst<<min(r.attempts, 8), retryMost))
	r.attempts++
}

// found handles the state that a read brought.
func (h *hub) found(r *register, e store.Entry) {
	if r.known && e.Revision < r.entry.Revision {
		h.doubt(r, e)
		return
	}
	r.attempts = 0
	if r.known && e.Revision > r.entry.Revision {
		r.feed.owes()
	}
	if !r.feed.brings(r.key) {
		// Nothing will tell of changes until the consumer stands.
		h.toRead(r)
		r.nextRead, r.spare = time.Now().Add(h.pollEvery()), true
	} else if r.confirm {
		r.confirm = false
		if !r.feed.consumer && h.s.nc.ConnectedClusterName() != "" {
			r.confirmAt = time.Now().Add(confirmAfter)
			h.unsettled[r] = struct{}{}
		}
	}
	h.observe(r, e)
}

// observe records a state and delivers it to those who do not know it.
func (h *hub) observe(r *register, e store.Entry) {
	changed := !r.known || e.Revision != r.entry.Revision
	r.known, r.entry, r.doubts = true, e, 0
	if changed {
		for _, w := range r.watches { // first, for those that come after one that ends this goroutine
			w.pending[r.key] = true
		}
	}
	for _, w := range slices.Clone(r.watches) {
		if w.stopped || h.ended || !w.pending[r.key] {
			continue
		}
		delete(w.pending, r.key)
		h.call(w, func() { w.deliver(e) })
		h.begun(w)
	}
}

// doubt handles a read that shows an older state than the known one: either the
// answering replica lags behind, or the stream lost its state or is another
// one. The stream's leader is asked which. A stream made at another time is
// another one. Else a state is believed to be lost when several reads in a row
// show it so and the leader never contradicts; once is not enough, since the
// leader itself may store a record a little later than the replica from which
// it came.
func (h *hub) doubt(r *register, e store.Entry) {
	r.doubts++
	if r.doubts > maxDoubts {
		r.known = false
		h.missed(r)
		h.observe(r, e)
		return
	}
	subject := h.s.stored + r.key
	h.ask(time.Now().Add(readTimeout), h.s.infoSubject(), mustJSON(map[string]string{"subjects_filter": subject}), func(m *nats.Msg) {
		if h.registers[r.key] != r {
			return
		}
		info := new(jetstream.StreamInfo)
		if m == nil || apiReply(m, info) != nil {
			h.retry(r)
			return
		}
		h.adopt(info)
		if !r.known {
			return
		}
		erased := e.Revision == 0 && info.State.Subjects[subject] == 0
		if !erased && info.State.LastSeq >= r.entry.Revision {
			// The replica lags. What is known was stored, and what is newer
			// will follow.
			r.doubts = 0
			h.observe(r, r.entry)
		}
		h.retry(r)
	})
}

// lived handles a message that tells of a write.
func (h *hub) lived(r *register, e store.Entry) {
	switch {
	case !r.known || e.Revision > r.entry.Revision:
		h.auditAt = time.Now().Add(auditEvery)
		h.observe(r, e)
	case e.Revision == r.entry.Revision:
		r.doubts = 0
	default:
		h.overtaken(r, e)
	}
}

// overtaken handles a write that is older than what is known: a straggler, or
// the first to a stream that begins anew. A read tells which. Messages do not,
// however many: a read shows at once what a busy feed has yet to deliver. Who
// may not read was not overtaken by one, and has nothing else to go by.
func (h *hub) overtaken(r *register, e store.Entry) {
	if !r.unreadable {
		h.toRead(r)
		return
	}
	r.doubts++
	if r.doubts > maxDoubts {
		h.observe(r, e)
	}
}

// broughtTo handles a message of the register's feed. The first that a consumer
// brings are the present state, which those who wait for it hear even if it is
// the known one.
func (h *hub) broughtTo(r *register, f *feed, e store.Entry) {
	if f.consumer && !f.caughtUp {
		r.shown = f.round
		if r.known && e.Revision == r.entry.Revision {
			h.observe(r, e)
			return
		}
	}
	h.lived(r, e)
}

// presentShown handles the end of the present state that a consumer brings. A
// key that it did not show, and that was not known to be absent, may be gone:
// it is read.
func (h *hub) presentShown(r *register, f *feed) {
	absent := r.known && r.entry.Revision == 0
	switch {
	case r.shown != f.round && !absent:
		r.nextRead = time.Time{}
		h.toRead(r)
		return
	case absent:
		h.observe(r, r.entry)
	}
	if r.spare {
		r.stale, r.spare = false, false
	}
}
