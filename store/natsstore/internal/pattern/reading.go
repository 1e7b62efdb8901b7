package pattern

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/sources"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A reading is one attempt to read the current state of a view's keys. Its
// source is a consumer made for it, or an inbox for the answer to a direct get.
type reading struct {
	view   *View
	source *sources.Source
}

func (r *reading) Pattern() string { return r.view.pattern }

// The survey started with the reading.
func (r *reading) Begin() {}

func (r *reading) Bring(e store.Entry, _ bool) { r.view.shown(e) }

func (r *reading) Complete() { r.view.Complete() }

// The next consumer shows all once more.
func (r *reading) Lost() {}

// A reading never subscribes to republished records.
func (r *reading) Taken() {}

func (r *reading) Resumed() {}

func (r *reading) Failed() { r.view.unread() }

func (r *reading) Closed() {
	if r.view.reading == r {
		r.view.reading = nil
	}
}

// read begins a reading. Each message of the answer moves its deadline on: many
// keys may take long, and silence is what ends it.
func (v *View) read(now time.Time) {
	v.sources.Doubt(v.source)
	v.deadline = now.Add(readTimeout)
	v.Begin()
	r := &reading{view: v}
	// A direct get costs the server no consumer, so it is tried first.
	byConsumer := v.ReadsByConsumer()
	var err error
	if byConsumer {
		r.source, err = v.sources.Show(r, now)
	} else {
		r.source, err = v.sources.Inbox(r, v.answered)
	}
	if err != nil {
		v.owner.Report(err)
		v.failed(byConsumer)
		return
	}
	v.reading = r
	if byConsumer {
		return
	}
	m := &nats.Msg{Subject: v.ReadSubject(), Reply: r.source.Subject()}
	if store.Wild(v.pattern) {
		m.Data = wire.JSON(map[string][]string{"multi_last": {v.names.Stored + v.pattern}})
	}
	if err := v.owner.Publish(m); err != nil {
		v.owner.Report(err) // the deadline ends it
	}
}

// ReadSubject returns the subject of the request for the current state. A
// pattern without wildcards is one key, whose direct get needs no list.
func (v *View) ReadSubject() string {
	if store.Wild(v.pattern) {
		return v.names.DirectMany()
	}
	return v.names.Direct(v.pattern)
}

// endReading gives up or completes the reading of the current state.
func (v *View) endReading() {
	if r := v.reading; r != nil {
		v.reading = nil
		v.sources.Close(r.source, r)
	}
}

// answered handles one message of the answer to a direct get.
func (v *View) answered(m *nats.Msg) {
	v.deadline = time.Now().Add(readTimeout)
	if err := v.names.Copied(m); err != nil {
		v.copied(err)
		return
	}
	if subject := wire.Appended(m.Header, nats.JSSubject); subject != "" {
		e, err := wire.Record(strings.TrimPrefix(subject, v.names.Stored), m)
		if err == nil {
			v.shown(e)
		}
		// For one key there is one message, and no end of the answer follows
		// it.
		if !store.Wild(v.pattern) && v.reading != nil {
			v.Complete()
		}
		return
	}
	status, why := m.Header.Get(wire.HeaderStatus), m.Header.Get(wire.HeaderDescription)
	none := status == wire.StatusNotFound && (!store.Wild(v.pattern) || why == wire.NoResults)
	switch whole := m.Header.Get(wire.HeaderPending) == "0"; {
	case none, status == wire.StatusEnd && whole:
		v.Complete()
	default: // too many, too large, or a server that knows no such request
		v.owner.Report(fmt.Errorf("reading %q: status %q %s", v.pattern, status, why))
		if status == wire.StatusNoResponders {
			v.owner.Unanswered(nats.ErrNoResponders)
		}
		v.unread()
	}
}

// copiesMost is how many readings in a row a mirror may answer before the view
// reads the current state by a consumer, which a mirror never serves.
const copiesMost = 20

// copied ends a reading that a mirror answers. The next may be answered by the
// stream itself.
func (v *View) copied(err error) {
	if v.reading == nil {
		return
	}
	v.owner.Report(err)
	v.copies++
	if v.copies%copiesMost == 0 {
		v.unread()
		return
	}
	v.endReading()
	v.wanted, v.nextRead = true, time.Now().Add(watch.RetryFirst)
}

// unread ends a reading that failed, unless it has ended: several messages of
// one answer may report the failure.
func (v *View) unread() {
	if v.reading == nil {
		return
	}
	byConsumer := v.reading.source.Consumer()
	v.endReading()
	v.failed(byConsumer)
}

// failed has the other way of reading tried next. After that by a consumer, the
// attempt waits for a backoff, or there is none if the user may not.
func (v *View) failed(byConsumer bool) {
	v.wanted, v.byConsumer = true, !byConsumer
	if !byConsumer {
		v.nextRead = time.Time{}
		return
	}
	if denied := v.names.ConsumerViolation(v.owner.LastError(), v.pattern); denied != nil {
		v.Renounce(denied)
		return
	}
	v.retryLater()
}
