//go:build unix

package figures_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A line is a way to a server. It counts what passes, and brings each answer so
// much later, however many pieces that has.
type line struct {
	listener net.Listener
	lag      atomic.Int64 // of answers, in nanoseconds
	bytes    atomic.Int64 // both ways
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	l := &line{listener: must(net.Listen("tcp", "127.0.0.1:0"))(t)}
	l.wg.Go(func() {
		for {
			client, err := l.listener.Accept()
			if err != nil {
				return // closed
			}
			l.join(client, target)
		}
	})
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.mu.Lock()
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
		l.wg.Wait()
	})
	return l
}

func (l *line) join(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	l.mu.Lock()
	l.conns = append(l.conns, client, server)
	l.mu.Unlock()
	l.wg.Go(func() {
		l.read(client, func(b []byte) error { _, err := server.Write(b); return err })
		_ = server.Close()
	})
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1<<10)
	l.wg.Go(func() {
		defer close(pieces)
		l.read(server, func(b []byte) error {
			pieces <- piece{append([]byte(nil), b...), time.Now().Add(time.Duration(l.lag.Load()))}
			return nil
		})
	})
	l.wg.Go(func() {
		defer client.Close() //nolint:errcheck // what it was sent was read, or nobody reads it
		for p := range pieces {
			<-time.After(time.Until(p.due))
			_, _ = client.Write(p.bytes) // the end of the connection shows by itself
		}
	})
}

// read passes on and counts what comes, until nothing does.
func (l *line) read(from io.Reader, pass func([]byte) error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		l.bytes.Add(int64(n))
		if n > 0 && pass(buf[:n]) != nil || err != nil {
			return
		}
	}
}

// lag is how much later answers come while round trips are counted: a renewal
// of two takes twice as long at least, and one of one does not, unless the
// machine stands still each time.
const lag = 200 * time.Millisecond

// trips counts the round trips of a renewal, and its bytes both ways.
func trips(t *testing.T, p place) (trips, bytes int) {
	t.Helper()
	l := newLine(t, p.addr)
	w := newWriter(t, p.at(l.listener.Addr().String()), "trips")
	w.swap(t)
	w.swap(t) // by a connection that is there
	const swaps = 5
	l.lag.Store(int64(lag))
	before := l.bytes.Load()
	least := time.Duration(1<<63 - 1)
	for range swaps {
		begun := time.Now()
		w.swap(t)
		least = min(least, time.Since(begun))
	}
	bytes = int(l.bytes.Load()-before) / swaps
	_ = w.st.Close() // what is measured afterwards is without it
	return int(least / lag), bytes
}
