package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

const (
	// pulse is the longest silence of a stream, so that either side notices
	// when the other is gone.
	pulse = 5 * time.Second
	// slowReader is how long a client may take to accept an event.
	slowReader = 5 * time.Second
)

// A stream sends events (text/event-stream) to one client. Its methods may be
// called concurrently. The pulse and the events come from different goroutines.
type stream struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	rc   *http.ResponseController
	last []byte // the data of the latest event
	gone bool
	// end ends what feeds the stream, when the client is gone.
	end context.CancelFunc
}

// stream begins a stream, if there are not too many. done ends it. Those that
// are too many are refused, and do not wait: a client without events asks as
// often as it has to, and loses only time.
func (s *server) stream(w http.ResponseWriter, r *http.Request) (st *stream, ctx context.Context, done func(), err error) {
	select {
	case s.streams <- struct{}{}:
	default:
		s.count.refuse("full")
		return nil, nil, nil, &failure{
			status: http.StatusServiceUnavailable, code: "full", retry: time.Second,
			detail: fmt.Sprintf("there are %d streams, and not more (--max-streams)", cap(s.streams)),
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	st = &stream{w: w, rc: http.NewResponseController(w), end: cancel}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx keeps it back otherwise
	w.Header().Set("Connection", "close")     // since its deadline for writing stays
	st.write([]byte(":\n\n"))                 // the client knows that it is heard
	var beat sync.WaitGroup
	beat.Go(func() { st.beat(ctx) })
	// In this order: what the pulse writes must not come after the handler has
	// returned.
	return st, ctx, func() {
		cancel()
		beat.Wait()
		<-s.streams
	}, nil
}

// beat sends comments until ctx is done.
func (st *stream) beat(ctx context.Context) {
	t := time.NewTicker(pulse)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			st.write([]byte(":\n\n"))
		case <-ctx.Done():
			return
		}
	}
}

// send sends an event, unless it equals the previous one. News are reported for
// many reasons, of which most change nothing that a client sees.
func (st *stream) send(event string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // our types have none
	}
	st.mu.Lock()
	same := bytes.Equal(data, st.last)
	st.last = data
	st.mu.Unlock()
	if !same {
		st.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, data))
	}
}

// write writes, and ends the stream if the client does not take it. It has no
// error to return: what feeds the stream ends with its context, and nobody else
// has anything to do about it.
func (st *stream) write(b []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gone {
		return
	}
	// Anew for each piece, since a stream as a whole lasts for as long as it
	// likes.
	err := st.rc.SetWriteDeadline(time.Now().Add(slowReader))
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		_, err = st.w.Write(b)
	}
	if err == nil {
		err = st.rc.Flush()
	}
	if err != nil {
		st.gone = true
		st.end()
	}
}

// events notifies a candidate's client of changes, so that it asks. It ends
// with the candidate.
func (s *server) events(w http.ResponseWriter, r *http.Request, c *candidate) error {
	st, ctx, done, err := s.stream(w, r)
	if err != nil {
		return err
	}
	defer done()
	for {
		// Before the view, so that a change after that wakes the loop.
		changed := c.news.next()
		st.send("candidate", c.view(false))
		select {
		case <-changed:
		// The last event contains why the candidate is withdrawn.
		case <-c.gone:
			st.send("candidate", c.view(false))
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// watch reports to an observer who leads a group, first now and then with each
// change.
func (s *server) watch(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("group")
	if !store.ValidKey(name) {
		return badGroup(name)
	}
	st, ctx, done, err := s.stream(w, r)
	if err != nil {
		return err
	}
	defer done()
	_ = leader.ObserveFuncWithStore(ctx, s.st, name, leader.Observer{ // Failed reports the error
		Leader: func(i leader.LeaderInfo) { st.send("leader", groupOf(i)) },
		Failed: func(err error) {
			st.send("trouble", failureOf(err).problem())
		},
	})
	return nil
}
