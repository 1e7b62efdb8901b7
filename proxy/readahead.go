package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// attention is how long a client waits for the leader before it is read
	// ahead. Where the leader can be connected to at once, no client is, so
	// that the kernel carries all of its bytes.
	attention = 250 * time.Millisecond
	// maxAhead is how many bytes are read ahead of a client. The end of one
	// that has sent more is not seen.
	maxAhead = 4 << 10
)

// A readahead reads a client that waits for the leader, and keeps what it
// reads: only a read shows that a client has gone.
//
// A client that has sent a request and then ends its side is not taken for
// gone. It may have ended one direction alone, and wait for the answer; TCP
// does not show the difference before something is sent to it.
type readahead struct {
	conn  net.Conn
	gone  func() // called if the client has gone
	ended func() // called if it has ended its side, and may wait for an answer

	mu    sync.Mutex
	begun bool          // run reads
	taken bool          // run is to read no more
	buf   []byte        // what was read
	err   error         // what ended the reading; io.EOF is the client's end
	done  chan struct{} // closed when run reads no more, once it has started
}

// run reads until the client has gone, has sent maxAhead bytes, or is taken.
func (r *readahead) run() {
	r.mu.Lock()
	if r.taken {
		r.mu.Unlock()
		return
	}
	r.begun, r.done, r.buf = true, make(chan struct{}), make([]byte, 0, maxAhead)
	r.mu.Unlock()
	defer close(r.done)
	for r.read() {
	}
}

// read reads once, and reports whether to read on.
func (r *readahead) read() bool {
	n, err := r.conn.Read(r.buf[len(r.buf):cap(r.buf)])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf, r.err = r.buf[:len(r.buf)+n], err
	switch {
	case r.taken:
		return false
	case err == nil:
		return len(r.buf) < cap(r.buf)
	case errors.Is(err, io.EOF) && len(r.buf) > 0:
		r.ended()
	default:
		r.gone()
	}
	return false
}

// take has run end after the read under way, and returns what was read before.
func (r *readahead) take() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = true
	return r.buf
}

// wait returns when nothing reads ahead any more. Call take before, and close
// the connection unless the client may take its time.
func (r *readahead) wait() {
	if r.begun {
		<-r.done
	}
}

// passOn sends to the leader what was read ahead, and what the read under way
// brings. It returns io.EOF if that was all that the client sends.
func (r *readahead) passOn(leader io.Writer, count *atomic.Uint64) error {
	now := r.take()
	if err := write(leader, now, count); err != nil {
		return err
	}
	r.wait()
	if err := write(leader, r.buf[len(now):], count); err != nil {
		return err
	}
	return r.err
}

func write(to io.Writer, p []byte, count *atomic.Uint64) error {
	if len(p) == 0 {
		return nil
	}
	n, err := to.Write(p)
	count.Add(uint64(n))
	return err
}
