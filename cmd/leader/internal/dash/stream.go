package dash

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
)

const (
	maxStreams = 100
	// pace is the time between two messages: renewals of many groups go in one.
	pace = 200 * time.Millisecond
	// pulse is how often the connection is looked at.
	pulse = time.Second
	// quiet is the longest silence of a stream, so that proxies and pages know
	// that it lives. The page takes the command for gone after twice as long.
	quiet = 5 * time.Second
	// slowReader is how long a visitor may take to accept a message.
	slowReader = 10 * time.Second
)

// stream sends the state of everything, and then what changes, until the
// visitor leaves. A visitor that comes back gets the state of everything again,
// so nothing is missed.
//
// Each stream holds a connection and a goroutine for as long as it lasts, so
// that their number is bounded; a browser comes back by itself.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		return // the mux takes it for a GET
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many visitors", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx keeps it back otherwise
	v := &visitor{server: s, w: w, rc: http.NewResponseController(w), told: make(map[string]bool)}
	v.follow(r.Context())
}

// A visitor is one stream. It belongs to the goroutine of its request. The
// board wakes it and keeps no queue for it: it asks for what is new since seq,
// so that a slow visitor skips states, and costs no memory.
type visitor struct {
	*server

	w    http.ResponseWriter
	rc   *http.ResponseController
	seq  uint64
	met  bool            // it has the state of everything
	told map[string]bool // the groups that the page has
	last status
	sent time.Time
}

// follow sends until the visitor leaves or takes nothing more. After each
// message it waits for the pace, and only then for news: After returns
// immediately with what changed meanwhile, which goes into one message.
func (v *visitor) follow(ctx context.Context) {
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	next := time.NewTimer(pace)
	defer next.Stop()
	for v.send() == nil {
		// All changes before the next message go into one message.
		next.Reset(pace)
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-v.board.After(v.seq):
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

// send sends what is new, or a sign of life if there has been nothing for long.
// That is an event and not a comment, since the page has to notice when the
// command is gone.
func (v *visitor) send() error {
	d := v.board.Since(v.seq)
	m := message{
		Now: time.Now().UnixMilli(), Whole: !v.met, Status: v.status(d),
		Groups: views(d.Changed, time.Now()), Renewed: renewals(d.Renewed, time.Now()), Gone: v.gone(d),
	}
	if m.Whole {
		m.About = &about{Bucket: v.session.Bucket, Server: v.session.URL, Control: v.control != nil}
	}
	if m.Whole || m.Status != v.last {
		m.Drains = drains(v.board.Drains())
	}
	news := m.Whole || m.Status != v.last || len(m.Groups)+len(m.Renewed)+len(m.Gone) > 0
	v.seq, v.met, v.last = d.Seq, true, m.Status
	switch {
	case news:
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		return v.write("retry: 1000\nevent: news\ndata: %s\n\n", data)
	case time.Since(v.sent) > quiet:
		return v.write("event: pulse\ndata: {}\n\n") // a script does not get comments
	}
	return nil
}

// write sends one event. The deadline is set again for each: a deadline for the
// whole answer would end every stream.
func (v *visitor) write(format string, args ...any) error {
	v.sent = time.Now()
	if err := v.rc.SetWriteDeadline(v.sent.Add(slowReader)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(v.w, format, args...); err != nil {
		return err
	}
	return v.rc.Flush()
}

// status is the state of the command itself, which the page shows above the
// groups.
func (v *visitor) status(d board.Delta) status {
	return status{
		Connected: v.session.Connected(), Complete: d.State.Complete, Failure: d.State.Failure, Ignored: d.State.Ignored,
		Drained: d.State.Drained, Past: *v.past.Load(),
	}
}

// gone returns the groups that the page has and the board has not. The board
// does not keep what has gone. As long as it has as many groups as the page,
// none can have; only then are all names compared.
func (v *visitor) gone(d board.Delta) (gone []string) {
	for _, g := range d.Changed {
		v.told[g.Group] = true
	}
	if len(v.told) <= d.Count {
		return nil
	}
	names := v.board.Names()
	for name := range v.told {
		if !names[name] {
			gone = append(gone, name)
			delete(v.told, name)
		}
	}
	return gone
}
