package proxy

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	// The kernel moves bytes, and does not report how many before the end: so
	// these are how many are carried before they are counted, of a slow
	// connection and of a fast one. Each end of a chunk cuts short what the
	// kernel moves at a time.
	minChunk = 1 << 20
	maxChunk = 64 << 20
	// brisk is in what time a chunk is carried at most if the next one is
	// to be larger.
	brisk = 250 * time.Millisecond
	// lull is how long one direction may go on when the other has failed: a
	// server that reads no more may have sent the reason.
	lull = 250 * time.Millisecond
)

// A link is a client's connection and the one to the leader.
type link struct {
	target         *target
	client, leader net.Conn
	ahead          *readahead // of the client; nil if it was not read
}

// cut ends both connections at once. Data that waits to be sent is discarded,
// to the leader first: it is to receive nothing more.
func (l *link) cut() {
	reset(l.leader)
	reset(l.client)
}

// carry copies both ways, until both have ended.
func (l *link) carry(count *counters) {
	sent := make(chan error, 1)
	go func() {
		err := l.send(&count.sent)
		l.soon(err)
		sent <- err
	}()
	received := carry(l.client, l.leader, &count.received)
	l.soon(received)
	end(l.leader, <-sent)
	end(l.client, received)
}

// send copies what the client sends, beginning with what was read ahead.
func (l *link) send(count *atomic.Uint64) error {
	if l.ahead == nil {
		return carry(l.leader, l.client, count)
	}
	switch err := l.ahead.passOn(l.leader, count); {
	case errors.Is(err, io.EOF):
		return closeWrite(l.leader)
	case err != nil:
		return err
	}
	return carry(l.leader, l.client, count)
}

// soon cuts in a moment, if one direction has failed.
func (l *link) soon(err error) {
	if err == nil {
		return
	}
	now := time.Now()
	_ = l.client.SetDeadline(now.Add(lull)) // those that are closed need none
	_ = l.leader.SetDeadline(now.Add(lull))
}

// carry copies what src sends to dst, and passes its end on. Between TCP
// connections, io.Copy has the kernel do it, where it can: keep their types.
func carry(dst, src net.Conn, count *atomic.Uint64) error {
	for chunk := int64(minChunk); ; {
		begun := time.Now()
		n, err := io.Copy(dst, &io.LimitedReader{R: src, N: chunk})
		count.Add(uint64(n))
		switch {
		case err != nil:
			return err
		case n < chunk:
			return closeWrite(dst)
		}
		chunk = next(chunk, time.Since(begun))
	}
}

// next is how many bytes are carried after a chunk that took so long. At a
// steady pace they are counted each half a second or earlier.
func next(chunk int64, took time.Duration) int64 {
	if took > brisk {
		return minChunk
	}
	return min(2*chunk, maxChunk)
}

// closeWrite ends one direction, or both of a connection that cannot do that.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// end closes a connection, in order if all was sent on it.
func end(c net.Conn, err error) {
	if err != nil {
		reset(c)
		return
	}
	_ = c.Close() // after CloseWrite there is nothing to lose
}

// reset closes a connection so that the other end sees an error, and discards
// unsent data. The innermost comes first: a TLS connection would end in order,
// and wait until it has sent that.
func reset(c net.Conn) {
	switch c := c.(type) {
	case interface{ SetLinger(sec int) error }:
		_ = c.SetLinger(0) // it may be closed already
	case interface{ NetConn() net.Conn }:
		reset(c.NetConn())
	}
	_ = c.Close()
}

// keepAlive has the kernel notice when a peer is gone, within a minute.
func keepAlive(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(alive()) // for want of it, the peer's absence is noticed by a write
	}
}

func alive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}
}
