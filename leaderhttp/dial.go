package leaderhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// brisk is in what time a request has a connection, unless the host is gone or
// has too much to do. The request is not given up before: if its connection
// comes at that very moment, it is unknown whether it was sent.
const brisk = 250 * time.Millisecond

// ErrGivenUp matches the error of a request that had no connection for a
// quarter of a second and was given up when another leader was seen, if its
// connection came at that very moment: it may have been sent. A request that
// certainly was not sent goes to the next leader without an error. A caller
// whose request may run twice can send it again.
var ErrGivenUp = errors.New("given up since another leader was seen")

// A dial is a request on its way to a leader that may have no connection yet. A
// host that is gone holds it up for as long as the transport below allows, so
// it is given up when another leader is seen.
type dial struct {
	t     *Transport
	term  uint64 // of that leader, or a later one
	begun time.Time
	end   context.CancelCauseFunc

	// The transport's lock guards these.
	sent  bool // perhaps: there was a connection
	given bool // up
}

// dial sends a request. It is given up, and was certainly not sent, if a.unsent
// is true then.
func (a *attempt) dial(out *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancelCause(out.Context())
	d := &dial{t: a.t, term: a.dest.Term, begun: time.Now(), end: end}
	trace := &httptrace.ClientTrace{GetConn: d.seeks, GotConn: d.got}
	resp, err := a.t.below(out.URL.Scheme, a.dest).RoundTrip(out.WithContext(httptrace.WithClientTrace(ctx, trace)))
	sent, given := d.over()
	switch {
	case err == nil:
		resp.Body = ending(resp.Body, func() { end(nil) })
		return resp, nil
	case given && !sent:
		err, a.unsent = ErrGivenUp, true
	case given && out.Context().Err() == nil:
		err = fmt.Errorf("leaderhttp: it may have been sent: %w", ErrGivenUp)
	}
	end(nil)
	return nil, err
}

// seeks is called when the transport begins to look for a connection. A
// transport that never reports it may have a connection at any time.
func (d *dial) seeks(string) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	if d.sent {
		return // and is to be sent again by the transport itself
	}
	d.t.dials[d] = struct{}{}
	d.heed(d.t.now.info)
}

// got is called when the transport has a connection.
func (d *dial) got(httptrace.GotConnInfo) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	d.sent = true
	delete(d.t.dials, d)
}

// heed takes in who leads. The transport's lock is held.
func (d *dial) heed(info leader.LeaderInfo) {
	if info.ID != "" && info.Term > d.term {
		time.AfterFunc(time.Until(d.begun.Add(brisk)), d.giveUp)
	}
}

func (d *dial) giveUp() {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	if _, waits := d.t.dials[d]; waits {
		delete(d.t.dials, d)
		d.given = true
		d.end(ErrGivenUp)
	}
}

// over reports whether there was a connection, and whether the request was
// given up before.
func (d *dial) over() (sent, given bool) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	delete(d.t.dials, d)
	return d.sent, d.given
}

// ending returns the body of an answer that calls end when it is read or
// closed. A body that can be written to, after an upgrade, still can.
func ending(body io.ReadCloser, end func()) io.ReadCloser {
	if body == http.NoBody {
		end()
		return body
	}
	e := &answer{body, end}
	if w, ok := body.(io.Writer); ok {
		return struct {
			io.ReadCloser
			io.Writer
		}{e, w}
	}
	return e
}

// An answer is the body of one.
type answer struct {
	io.ReadCloser

	end func()
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.end()
	}
	return n, err
}

func (a *answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close()
}
