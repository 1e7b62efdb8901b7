package natsstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// A view is a pattern that somebody watches: what of all its keys was
// delivered. Writes come by its feed, and the present state with the consumer
// where the feed is one. Else that is read: by one direct get of all keys,
// which the server grants for up to 1,024 of them (nats-server, stream.go,
// getDirectMulti), or by a consumer made for it.
//
// A survey is one delivery of the present state. Each has a number, by which
// the keys that it does not show are found. What it shows of a key is believed
// against what is known only if the next maxDoubts ones say the same and the
// stream's leader does not contradict: the replica that answers may lag behind.
type view struct {
	watch   *watch
	pattern string
	present func(error)
	feed    *feed
	keys    map[string]*sight
	survey  uint64 // number of the latest

	repeat     bool // the next survey delivers what is known already, too
	doubts     bool // the survey contradicted what is known
	confirm    bool // the next survey is to be confirmed
	wanted     bool // a survey is due
	unreadable bool // the user may not read; only the feed tells the state
	held       bool // nothing is read until it is known that the feed is allowed
	moved      bool // the feed is another one since that was asked

	reading    *feed // reads the present state
	byConsumer bool  // direct gets do not serve
	deadline   time.Time
	nextRead   time.Time
	attempts   int
}

// A sight is what was delivered of a key.
type sight struct {
	revision uint64
	seen     uint64 // number of the survey in which it was last shown or heard
	doubted  uint64 // number of the latest survey that showed less
	doubts   int    // surveys in a row that did
}

// doubt notes that a survey shows less of the key than is known, and reports
// whether that is to be believed.
func (k *sight) doubt(survey uint64) bool {
	if k.doubted+1 != survey {
		k.doubts = 0
	}
	k.doubts++
	k.doubted = survey
	return k.doubts > maxDoubts
}

func newView(w *watch, pattern string, present func(error)) *view {
	return &view{watch: w, pattern: pattern, present: present, keys: make(map[string]*sight), repeat: true, confirm: true}
}

// addView begins to serve a view.
func (h *hub) addView(v *view) error {
	h.views[v] = struct{}{}
	if err := h.feedView(v); err != nil {
		return err
	}
	v.wanted, v.held = true, true
	return nil
}

// feedView gives the view a feed.
func (h *hub) feedView(v *view) error {
	if v.feed != nil {
		return nil
	}
	f, err := h.newFeed(&feed{filter: v.pattern, wide: true})
	if err != nil {
		return err
	}
	v.feed, f.views = f, append(slices.Clone(f.views), v)
	return nil
}

// removeView ends the service of a view.
func (h *hub) removeView(v *view) {
	delete(h.views, v)
	h.endReading(v)
	f := v.feed
	if f == nil {
		return
	}
	v.feed, f.views = nil, slices.DeleteFunc(slices.Clone(f.views), func(x *view) bool { return x == v })
	if f != h.whole {
		h.unsubscribe(f)
	}
}

// startOver: something may have been missed, or permissions have changed. The
// present state is read, and delivered even if it is the known one.
func (h *hub) startOver(v *view) {
	h.endReading(v)
	v.repeat, v.confirm, v.wanted, v.unreadable, v.byConsumer = true, true, true, false, false
	v.nextRead, v.attempts = time.Time{}, 0
}

// begin begins a survey.
func (v *view) begin() {
	v.survey++
	v.doubts, v.wanted = false, false
}

// seen handles an entry that a survey shows, or that tells of a write.
func (h *hub) seen(v *view, e store.Entry, survey bool) {
	k := v.keys[e.Key]
	switch {
	case v.watch.stopped:
		return
	case k == nil || e.Revision > k.revision:
	case e.Revision == k.revision:
		k.seen = v.survey
		if !survey || !v.repeat {
			return
		}
	case !survey:
		v.wanted = true // a straggler, or the first write to a stream that begins anew
		return
	case k.seen == v.survey || k.doubted == v.survey:
		return // overtaken by the message of a write
	case !k.doubt(v.survey):
		v.doubts = true
		return
	}
	v.keys[e.Key] = &sight{revision: e.Revision, seen: v.survey}
	h.call(v.watch, func() { v.watch.deliver(e) })
}

// surveyed handles the end of a survey.
func (h *hub) surveyed(v *view) {
	h.endReading(v)
	v.attempts = 0
	for _, key := range v.gone() {
		if !v.watch.stopped && !h.ended {
			h.call(v.watch, func() { v.watch.deliver(store.Entry{Key: key}) })
		}
	}
	// As with a register: a subscription travels to a cluster's other servers
	// by itself.
	lossy := v.confirm && v.feed != nil && !v.feed.consumer && h.s.nc.ConnectedClusterName() != ""
	v.confirm = false
	if v.doubts || lossy {
		v.wanted, v.nextRead = true, time.Now().Add(confirmAfter)
	}
	if v.doubts {
		h.judge(v)
	}
	if v.repeat {
		v.repeat = false
		h.presented(v, nil)
	}
}

// gone returns the keys that are to be believed gone, and forgets them.
func (v *view) gone() (keys []string) {
	for key, k := range v.keys {
		switch {
		case k.seen == v.survey || k.doubted == v.survey:
		case k.doubt(v.survey):
			delete(v.keys, key)
			keys = append(keys, key)
		default:
			v.doubts = true
		}
	}
	return keys
}

// forget makes the view believe whatever another stream shows.
func (v *view) forget() {
	for _, k := range v.keys {
		k.revision = 0
	}
}

// judge asks the stream's leader about the keys of which a survey showed less
// than is known. Where it does not say, the surveys decide.
func (h *hub) judge(v *view) {
	filter := mustJSON(map[string]string{"subjects_filter": h.s.stored + v.pattern})
	h.ask(time.Now().Add(readTimeout), h.s.infoSubject(), filter, func(m *nats.Msg) {
		info := new(jetstream.StreamInfo)
		if _, watched := h.views[v]; !watched || m == nil || apiReply(m, info) != nil {
			return
		}
		if h.adopt(info) {
			return // what is known was another stream's
		}
		for key, k := range v.keys {
			switch {
			case k.doubts == 0 || info.State.LastSeq < k.revision:
			case info.State.Subjects[h.s.stored+key] > 0:
				k.doubts = 0 // the replica lags
			default:
				k.doubts = maxDoubts // erased: the next survey is believed
			}
		}
	})
}

// presented tells that the present state is complete, or why it cannot be
// known.
func (h *hub) presented(v *view, err error) {
	w := v.watch
	if w.stopped || h.ended {
		return
	}
	h.call(w, func() { v.present(err) })
	delete(w.pending, v.pattern)
	h.begun(w)
}

// look begins a survey if one is due.
func (h *hub) look(v *view, now time.Time, due func(time.Time)) {
	switch {
	case v.reading != nil && v.reading.consumer:
		// tend looks after it.
	case v.reading != nil && now.Before(v.deadline):
		due(v.deadline)
	case v.reading != nil:
		h.unread(v)
		due(now)
	case !v.wanted || v.unreadable || v.held || v.feed == nil:
	case now.Before(v.nextRead):
		due(v.nextRead)
	case v.feed.consumer:
		if v.feed.standing { // else one is being made
			h.down(v.feed) // the next one begins with the present state
			due(now)
		}
	default:
		h.readAll(v, now)
		due(now)
	}
}

// readAll asks for the present state of all keys of the view.
func (h *hub) readAll(v *view, now time.Time) {
	v.deadline = now.Add(readTimeout)
	f := &feed{filter: v.pattern, wide: true, prefix: h.s.stored, reads: v, consumer: v.byConsumer || h.s.noDirect.Load()}
	v.begin()
	v.reading = f
	if f.consumer {
		h.make(f, now)
		if f.sub == nil {
			h.unread(v)
		}
		return
	}
	if err := h.listen(f, h.s.nc.NewInbox()); err != nil {
		h.lastErr = err
		h.unread(v)
		return
	}
	subject, body := h.s.readSubject(v.pattern), []byte(nil)
	if store.Wild(v.pattern) {
		body = mustJSON(map[string][]string{"multi_last": {h.s.stored + v.pattern}})
	}
	if err := h.s.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: f.sub.Subject, Data: body}); err != nil {
		h.lastErr = err // the deadline ends it
	}
}

// readSubject is where the present state of a pattern's keys is asked for.
func (s *Store) readSubject(pattern string) string {
	if store.Wild(pattern) {
		return s.api + "DIRECT.GET." + s.stream
	}
	return s.directSubject(pattern)
}

// endReading gives up reading the present state, or is done with it.
func (h *hub) endReading(v *view) {
	if f := v.reading; f != nil {
		v.reading = nil
		h.unsubscribe(f)
	}
}

// Statuses of the answer to a direct get of many keys.
const (
	statusEnd = "204"
	// noResults tells the answer that there is no such key from one that a key
	// could not be loaded.
	noResults = "No Results"
)

// answered handles one message of the answer to a direct get.
func (h *hub) answered(v *view, m *nats.Msg) {
	v.deadline = time.Now().Add(readTimeout)
	if subject := appended(m.Header, nats.JSSubject); subject != "" {
		e, err := recordEntry(strings.TrimPrefix(subject, h.s.stored), m)
		if err == nil {
			h.seen(v, e, true)
		}
		if !store.Wild(v.pattern) && v.reading != nil {
			h.surveyed(v)
		}
		return
	}
	status := m.Header.Get(hdrStatus)
	none := status == statusNotFound && (!store.Wild(v.pattern) || m.Header.Get(hdrDescription) == noResults)
	switch whole := m.Header.Get(hdrPending) == "0"; {
	case none, status == statusEnd && whole:
		h.surveyed(v)
	default: // too many, too large, or a server that knows no such request
		h.lastErr = fmt.Errorf("reading %q: status %q %s", v.pattern, status, m.Header.Get(hdrDescription))
		if status == statusNoResponders {
			h.auditSoon(nats.ErrNoResponders)
		}
		h.unread(v)
	}
}

// unread handles a failure to read the present state: the other way of reading
// is tried next.
func (h *hub) unread(v *view) {
	if v == nil || v.reading == nil {
		return
	}
	failed := v.reading.consumer
	h.endReading(v)
	v.wanted, v.byConsumer = true, !failed
	if !failed {
		v.nextRead = time.Time{}
		return
	}
	reported := h.s.nc.LastError()
	if denied := violation(reported, h.s.consumerSubject()); denied != nil && !h.refusedShared(reported) {
		h.renounceAll(v, denied)
		return
	}
	v.nextRead = time.Now().Add(min(retryFirst<<min(v.attempts, 8), retryMost))
	v.attempts++
}

// renounceAll gives up reading what the user may not read.
func (h *hub) renounceAll(v *view, denied error) {
	if v.unreadable {
		return
	}
	h.endReading(v)
	v.unreadable, v.repeat = true, false
	h.presented(v, fmt.Errorf("%w: the user may read the keys %q of bucket %q neither by a direct get nor by a consumer,"+
		" and hears of each with its next write: %w", store.ErrPermanent, v.pattern, h.s.bucket, denied))
}

// deniedView reports a permission whose lack keeps a view from hearing of
// writes. One whose lack keeps it from reading the present state makes it try
// the other way, and then do without.
func (h *hub) deniedView(reported error, v *view) error {
	s := h.s
	fatal := []string{}
	if v.feed != nil && v.feed.sub != nil && v.feed.consumer {
		fatal = []string{s.consumerSubject(), s.inboxPrefix()}
	} else if v.feed != nil && v.feed.sub != nil {
		fatal = []string{v.feed.sub.Subject}
	}
	if denied := violation(reported, fatal...); denied != nil {
		return h.unwatchable(denied)
	}
	if v.reading == nil {
		return nil
	}
	subject := s.readSubject(v.pattern)
	if v.reading.consumer {
		subject = s.consumerSubject()
	}
	switch denied := violation(reported, subject); {
	case violation(reported, s.inboxPrefix()) != nil:
		h.renounceAll(v, fmt.Errorf("%w: %w", errNoReplies, reported))
	case denied != nil && v.reading.consumer:
		h.renounceAll(v, denied)
	case denied != nil:
		h.unread(v)
		h.nudge()
	}
	return nil
}

var errNoReplies = errors.New("the user may not subscribe to replies")
