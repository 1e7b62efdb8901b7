package web

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// room is how many connections a server has at a time, unless Limit sets
	// another number.
	room = 1024
	// answerTimeout is how long a client may take to accept a piece of an
	// answer.
	answerTimeout = 10 * time.Second
	pieceSize     = 32 << 10
)

// A crowd is a listener that bounds how many connections there are: each takes
// a file descriptor, and a process that has none left reaches no server any
// more. A new connection takes the place of the one that has waited longest,
// before or between requests. Where none waits, the new one is closed.
type crowd struct {
	net.Listener

	most int
	full func() // called when a connection was closed for lack of room

	mu      sync.Mutex
	all     map[net.Conn]*list.Element // in waiting; nil while a request is answered
	waiting *list.List
}

func newCrowd(ln net.Listener) *crowd {
	return &crowd{Listener: ln, most: room, full: func() {}, all: map[net.Conn]*list.Element{}, waiting: list.New()}
}

// Accept returns the next connection for which there is a place.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		next := &patient{Conn: conn}
		gone, ok := c.enter(next)
		if gone != nil {
			_ = gone.Close()
		}
		if ok {
			return next, nil
		}
		_ = conn.Close()
		c.full()
	}
}

// enter gives a connection a place, and returns the one that loses its own.
func (c *crowd) enter(conn net.Conn) (gone net.Conn, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= c.most {
		first := c.waiting.Front()
		if first == nil {
			return nil, false
		}
		gone = c.waiting.Remove(first).(net.Conn) //nolint:errcheck,forcetypeassert // nothing else is in it
		delete(c.all, gone)
	}
	c.all[conn] = c.waiting.PushBack(conn)
	return gone, true
}

// changed follows what a connection does (http.Server.ConnState).
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place, is := c.all[conn]
	if !is || state == http.StateNew {
		return
	}
	if place != nil {
		c.waiting.Remove(place)
	}
	switch state {
	case http.StateIdle:
		c.all[conn] = c.waiting.PushBack(conn)
	case http.StateActive:
		c.all[conn] = nil
	default:
		delete(c.all, conn)
	}
}

// A patient connection does not wait forever for a client that reads nothing,
// unless its user sets another deadline.
type patient struct {
	net.Conn

	own atomic.Bool
}

// Write writes in pieces, so that a long answer takes as long as it has to.
func (p *patient) Write(b []byte) (n int, err error) {
	for {
		if !p.own.Load() {
			_ = p.Conn.SetWriteDeadline(time.Now().Add(answerTimeout)) // an error shows in Write
		}
		m, err := p.Conn.Write(b[:min(len(b), pieceSize)])
		n, b = n+m, b[m:]
		if err != nil || len(b) == 0 {
			return n, err
		}
	}
}

func (p *patient) SetWriteDeadline(t time.Time) error {
	p.own.Store(!t.IsZero())
	return p.Conn.SetWriteDeadline(t)
}

func (p *patient) SetDeadline(t time.Time) error {
	p.own.Store(!t.IsZero())
	return p.Conn.SetDeadline(t)
}

// CloseWrite lets net/http end an answer without cutting off what of it is on
// its way.
func (p *patient) CloseWrite() error {
	if c, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
